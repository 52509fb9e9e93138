/*
 * The protocol by which vitrine's replicas share one resource, for spin. README.md in this folder
 * says what holds, how it is put, and what is left out.
 *
 * Comments in brackets name the scripts that a step stands for.
 *
 * One purge is watched. Of a document it matters only whether its fetch began before that purge (OLD)
 * or after it (NEW), so that any number of other purges, fetches and replies may come before, between
 * and after. Time is a series of ticks, each as long as memory may be trusted: something is recent if
 * it happened in the present tick, and the watched purge is long ago if it was acknowledged in an
 * earlier one. Ticks may fall anywhere, so that the boundary between two of them can be the moment
 * "one window before the answer" of any real history.
 *
 * What spin looks at is chosen by one of LEASE, MEMORY and WAITING. A guard is removed by the macro of
 * its name:
 *
 *   NO_TOKEN         a fill is stored only under the token of its lease
 *   NO_SEQ           ... and only while the hash has the number that the lease fills: DEL voids the
 *                    lease
 *   NO_STUB          a lease creates the hash if it is missing, to give a purge something to remove
 *   NO_FRESH_MARK    a fill is fresh only if fresh_until has not changed since the lease
 *   ZERO_STAYS       acquire replaces an operator's 0 by a number, to make a second HSET
 *                    fresh_until 0 visible
 *   MARK_AFTER_READ  the mark is taken before Redis is read, not when memory is written
 *   NO_PERIOD        a copy read before listening was interrupted is checked again
 *   PERIOD_EARLY     a period begins when tracking is on again, not when the connection is lost
 *   NO_HEARTBEAT     memory is trusted on a recent reply to a ping, not on an open connection
 *   MARK_BEFORE_PING the last answered ping is read before the mark
 *   ANY_LOOK         a look is shared only if it began within the window
 *   ANY_FLIGHT       a flight's document is given only to requests made at most a window after its
 *                    fill was sent
 *   ANY_VOID         a refused document is given only to requests made before its load began, or
 *                    within a window after
 *   ALONE_TRUSTED    a document loaded while Redis was unreachable is never trusted: its purge is
 *                    not announced
 *   SIGNAL_LATE      a replica starts to wait for a change before it asks for the lease
 *   NO_EXPIRY        a lease expires
 *   NO_NOTIFY        waiting replicas are woken when listening begins again
 *   ONE_KEY          changes of the lease wake waiting replicas, as changes of the hash do
 */

#ifndef REPLICAS
#define REPLICAS 2
#endif
#ifdef LEASE
#define OBSERVED(r) false      /* what Redis holds is looked at, not what anybody remembers */
#else
#define OBSERVED(r) (r == 0)   /* replicas are alike: the others are what they do to Redis */
#endif

/* Versions of the document. */
#define NONE 0
#define OLD  1
#define NEW  2

/* fresh_until: not there, an operator's 0, what acquire makes of it, a time to come. In the code each
   acquire makes another number of it: one for all is harder. */
#define MISSING 0
#define ZERO    1
#define PAST    2
#define LATER   3

/* Taken before something is read; each bit is cleared by what makes it untrue. */
typedef Mark {
	bool recent;    /* taken in this tick */
	bool period;    /* listening has not been interrupted since */
	bool changes    /* no change has been received since */
}

typedef Replica {
	/* The listening connection: Redis pushes on it, its first ping was answered, a ping sent in this
	   tick was answered. On their way, in this order: a change, the answer to a ping, a change. */
	bool hears, greeted, heard, change, pong, change2;

	byte mem; Mark mark;                           /* memory */
	bool looking; byte found; Mark lmark;          /* a look at Redis under way */
	byte token, ver, was;                          /* a flight: its lease, what it loads, fresh_until */
	bool began, filling, filled; Mark fmark;       /* ... its load began in this tick; from before its fill */
	byte late, latever, latewas;                   /* a command that its sender has given up */
	bool told, sleeps, signal                      /* a flight that waits for another's */
}
Replica R[REPLICAS];

byte doc, fresh;               /* the hash */
bool stub;                     /* ... is there without a document */
byte lease;                    /* the key beside it */
bool fits;                     /* the hash has the number that the lease fills */
bool expired;                  /* the lease is over */
bool purged, soft, ago;        /* the watched purge: acknowledged, of the soft kind, in an earlier tick */

/* Somebody asks replica 0, after the watched purge. */
mtype = { NOBODY, ASKED, NEXTLOOK, THISLOOK, THISFLIGHT };
mtype visitor = NOBODY;
bool trusts;                   /* what he saw first */
bool after, aftervoid;         /* the flight's fill, or its load, began no earlier than a window before he asked */

#define EXISTS     (doc != NONE || stub || fresh != MISSING)
#define FRESH      (doc != NONE && fresh == LATER)
#define CMS        (purged -> NEW : OLD)
#define OWN(r, l)  (l != 0 && (l - 1) / 3 == r)
#define GRANTS(r)  (!FRESH && (lease == 0 || expired || !fits || OWN(r, lease)))   /* [acquire.lua] */

#ifdef NO_TOKEN
#define STORES(t)  (lease != 0 && fits)
#elif defined(NO_SEQ)
#define STORES(t)  (lease == t)
#else
#define STORES(t)  (lease == t && fits)                                  /* [fill.lua] */
#endif
#ifdef NO_FRESH_MARK
#define UNTOUCHED(m) true
#else
#define UNTOUCHED(m) (fresh == m)
#endif

/* Redis announces a change to all that listen, before it answers whoever made it. */
inline announce() {
	for (i : 0 .. REPLICAS - 1) {
		if
		:: R[i].hears && R[i].pong  -> R[i].change2 = 1
		:: R[i].hears && !R[i].pong -> R[i].change = 1
		:: else
		fi
	}
	i = 0
}

/* A change of the key beside the hash wakes those who wait, and concerns no copy. */
inline announcelease() {
#if defined(WAITING) && !defined(ONE_KEY)
	announce()
#else
	skip
#endif
}

inline take(M)       { M.recent = 1; M.period = 1; M.changes = 1 }
inline drop(M)     { M.recent = 0; M.period = 0; M.changes = 0 }
inline copyto(M, FROM) { M.recent = FROM.recent; M.period = FROM.period; M.changes = FROM.changes }

inline newperiod() { R[r].mark.period = 0; R[r].lmark.period = 0; R[r].fmark.period = 0 }

/* The listening connection. */
proctype Listen(byte r) {
end:	do
	/* A change is received. */
	:: d_step { R[r].change -> printf("replica %d receives a change\n", r);
		R[r].change = 0;
		R[r].mark.changes = 0; R[r].fmark.changes = 0;
#ifndef MARK_AFTER_READ
		R[r].lmark.changes = 0;
#endif
		R[r].signal = R[r].sleeps }
	/* The answer to a ping is received: every change acknowledged before it was sent has been. */
	:: d_step { !R[r].change && R[r].pong -> printf("replica %d receives the answer to its ping\n", r);
		R[r].pong = 0; R[r].change = R[r].change2; R[r].change2 = 0; R[r].heard = 1;
		if
		:: !R[r].greeted -> R[r].greeted = 1;
#if !defined(NO_PERIOD) && !defined(PERIOD_EARLY)
			newperiod();
#endif
#ifndef NO_NOTIFY
			R[r].signal = R[r].sleeps
#endif
		:: else
		fi }
	/* A ping. Redis answers at once: later would only mean that more changes come before the answer. */
	:: d_step { R[r].hears && !R[r].pong && (!R[r].heard || !R[r].greeted) ->
		printf("replica %d pings, and Redis answers\n", r); R[r].pong = 1 }
	/* The connection is lost: pushes go nowhere, what is on its way may still be read ... */
	:: d_step { R[r].hears -> printf("replica %d: its listening connection is lost\n", r); R[r].hears = 0;
#ifdef PERIOD_EARLY
		newperiod()
#endif
		}
	/* ... until it is noticed, and there is another one, with tracking switched on. */
	:: d_step { !R[r].hears -> printf("replica %d connects and switches tracking on\n", r);
		R[r].change = 0; R[r].pong = 0; R[r].change2 = 0;
		R[r].hears = 1; R[r].greeted = 0; R[r].heard = 0 }
	od
}

/* An answer to somebody who asked when the watched purge was long ago. */
inline answer(V) { printf("the visitor is given version %d\n", V); assert(V == NEW); visitor = NOBODY; after = 0; aftervoid = 0 }

/* Looks at Redis, of the attendant and of visitors. [look.lua] */
proctype Look(byte r) {
end:	do
	:: d_step { printf("replica %d begins a look\n", r);
		R[r].looking = 1; take(R[r].lmark);
		if
		:: visitor == NEXTLOOK -> visitor = THISLOOK
		:: else
		fi };
		d_step { printf("the look of replica %d reads version %d\n", r, doc); R[r].found = doc };
		d_step { printf("replica %d puts into memory what its look found\n", r);
			R[r].mem = R[r].found; copyto(R[r].mark, R[r].lmark);
			if
			:: visitor == THISLOOK && R[r].found != NONE -> answer(R[r].found)
			:: visitor == THISLOOK && R[r].found == NONE -> visitor = THISFLIGHT;
				after = R[r].fmark.recent; aftervoid = R[r].began
			:: else
			fi;
			R[r].looking = 0; R[r].found = NONE; drop(R[r].lmark) }
	od
}

inline newtoken(T) {
	if
	:: lease != 3*r+1 && R[r].late != 3*r+1 -> T = 3*r+1
	:: else -> T = (lease != 3*r+2 && R[r].late != 3*r+2 -> 3*r+2 : 3*r+3)
	fi
}
inline grant(T) {      /* [acquire.lua] */
	lease = T; expired = 0; fits = 1;
	if
#ifndef NO_STUB
	:: doc == NONE && !stub -> stub = 1; fresh = PAST; announce()
#endif
#ifndef ZERO_STAYS
	:: (doc != NONE || stub) && fresh == ZERO -> fresh = PAST; announce()
#endif
	:: else
	fi;
	announcelease()
}
inline store(V, WAS) {  /* [fill.lua] */
	doc = V; fresh = (UNTOUCHED(WAS) -> LATER : ZERO); stub = 0; lease = 0; expired = 0; fits = 0;
	announce(); announcelease()
}
inline land() {
	R[r].token = 0; R[r].ver = NONE; R[r].was = MISSING; R[r].began = 0; R[r].filling = 0; R[r].filled = 0;
	drop(R[r].fmark); after = 0; aftervoid = 0
}
inline forget() { R[r].late = 0; R[r].latever = NONE; R[r].latewas = MISSING }

#define WAITED(r)   (OBSERVED(r) && visitor == THISFLIGHT)
#define LOADING(r)  (R[r].token != 0 && !R[r].filling)
#define FILLING(r)  (R[r].token != 0 && (R[r].filling && !R[r].filled || !OBSERVED(r)))

/* Flights: acquire, load, fill. */
proctype Flight(byte r) {
	byte i;
end:	do
	/* Acquire, and begin to load. */
	:: d_step { R[r].token == 0 && !R[r].sleeps && !R[r].told && GRANTS(r) -> printf("replica %d takes the lease and begins to load version %d\n", r, CMS);
		newtoken(R[r].token); grant(R[r].token); R[r].was = fresh; R[r].ver = CMS;
		R[r].began = OBSERVED(r); aftervoid = (OBSERVED(r) && visitor == THISFLIGHT -> 1 : aftervoid) }
	/* Somebody has filled meanwhile: whoever waits looks. */
	:: d_step { R[r].token == 0 && FRESH && WAITED(r) -> printf("replica %d is told that somebody has filled meanwhile\n", r); visitor = NEXTLOOK }
	/* The load is done. */
	:: d_step { LOADING(r) && OBSERVED(r) -> printf("replica %d: its load is done\n", r); R[r].filling = 1; take(R[r].fmark); after = (visitor == THISFLIGHT) }
	/* Fill. */
	:: d_step { FILLING(r) && STORES(R[r].token) -> printf("replica %d fills, and Redis stores version %d\n", r, R[r].ver);
		store(R[r].ver, R[r].was);
		if
		:: OBSERVED(r) -> R[r].filled = 1
		:: else -> land()
		fi }
	/* Its reply comes: memory has the document, and whoever waited and may have it. */
	:: d_step { R[r].filled -> printf("replica %d has the reply to its fill\n", r);
		R[r].mem = R[r].ver; copyto(R[r].mark, R[r].fmark);
		if
#ifndef ANY_FLIGHT
		:: WAITED(r) && !after -> visitor = NEXTLOOK
		:: WAITED(r) && after -> answer(R[r].ver)
#else
		:: WAITED(r) -> answer(R[r].ver)
#endif
		:: else
		fi;
		land() }
	/* Purged meanwhile, or another's by now: for him alone who asked before the load began. */
	:: d_step { FILLING(r) && !STORES(R[r].token) -> printf("replica %d fills, and Redis refuses it\n", r);
		if
#ifndef ANY_VOID
		:: WAITED(r) && aftervoid -> answer(R[r].ver)
#else
		:: WAITED(r) -> answer(R[r].ver)
#endif
		:: true
		fi;
		land() }
#if defined(LEASE) || defined(WAITING)
	/* The CMS fails, and the lease is given back. [release.lua] */
	:: d_step { LOADING(r) && lease == R[r].token -> printf("replica %d fails to load, and gives the lease back\n", r); lease = 0; expired = 0; fits = 0; announcelease(); land() }
	/* The process dies, or is too slow; or giving the lease back fails. */
	:: d_step { LOADING(r) -> printf("replica %d gives up its load without giving the lease back\n", r); land() }
	:: d_step { lease != 0 && !expired && r == 0 ->
#ifndef NO_EXPIRY
		printf("the lease runs out\n");
		expired = 1
#endif
		}
#endif
#ifdef LEASE
	/* An acquire or a fill that its sender gave up is carried out later, or never. */
	:: d_step { R[r].token == 0 && R[r].late == 0 && !FRESH -> printf("replica %d gives up waiting for its acquire\n", r); newtoken(R[r].late) }
	:: d_step { FILLING(r) && R[r].late == 0 -> printf("replica %d gives up waiting for its fill\n", r);
		R[r].late = R[r].token; R[r].latever = R[r].ver; R[r].latewas = R[r].was; land() }
	:: d_step { R[r].late != 0 && R[r].latever == NONE && GRANTS(r) -> printf("the late acquire of replica %d is carried out\n", r); grant(R[r].late); forget() }
	:: d_step { R[r].late != 0 && R[r].latever != NONE && STORES(R[r].late) -> printf("the late fill of replica %d is stored: version %d\n", r, R[r].latever);
		store(R[r].latever, R[r].latewas); forget() }
	:: d_step { R[r].late != 0 -> forget() }
#endif
#ifdef MEMORY
	/* Redis cannot be reached: loaded for this process alone. */
	:: d_step { OBSERVED(r) && R[r].token == 0 -> printf("replica %d cannot reach Redis, and loads version %d on its own\n", r, CMS);
		R[r].mem = CMS; drop(R[r].mark); R[r].mark.changes = 1;
#ifdef ALONE_TRUSTED
		R[r].mark.period = 1
#endif
		}
#endif
#ifdef WAITING
	/* Another has the lease: wait for a change. */
	:: d_step { OBSERVED(r) && R[r].token == 0 && !R[r].sleeps && !R[r].told && !FRESH && !GRANTS(r) -> printf("replica %d is told that another has the lease\n", r);
#ifdef SIGNAL_LATE
		R[r].told = 1 }
	:: d_step { R[r].told -> R[r].told = 0;
#endif
		printf("replica %d waits for a change\n", r); R[r].sleeps = 1 }
	:: d_step { R[r].sleeps && (R[r].signal || expired) -> printf("replica %d wakes up\n", r); R[r].sleeps = 0; R[r].signal = 0 }
#endif
	od
}

/* Somebody asks replica 0. */
#define COHERENT (R[0].mem != NONE && R[0].mark.period && R[0].mark.changes)
proctype Visitor() {
end:	do
	:: d_step { visitor == NOBODY && ago -> printf("a visitor asks replica 0\n"); visitor = ASKED;
#ifdef MARK_BEFORE_PING
		trusts = COHERENT
#else
		trusts = R[0].heard
#endif
		}
	:: d_step { visitor == ASKED ->
		if
#ifdef MARK_BEFORE_PING
		:: trusts && R[0].heard -> answer(R[0].mem)
#else
		:: trusts && COHERENT -> answer(R[0].mem)
#endif
		:: else ->
			if
			:: R[0].mem != NONE && R[0].mark.recent && R[0].mark.changes -> answer(R[0].mem)
#ifdef ANY_LOOK
			:: else -> visitor = (R[0].looking -> THISLOOK : NEXTLOOK)
#else
			:: else -> visitor = (R[0].looking && R[0].lmark.recent -> THISLOOK : NEXTLOOK)
#endif
			fi
		fi;
		trusts = 0 }
	od
}

inline remove() {
	doc = NONE; fresh = MISSING; stub = 0; fits = 0;
#ifdef MEMORY
	lease = 0;             /* it is void: as good as none */
#endif
	announce()
}

/* No change is on its way that would wake the flight that waits, and none will come. */
#define STUCK (R[0].sleeps && !R[0].signal && !R[0].change && !R[0].change2 && R[0].hears && R[0].greeted \
	&& (lease == 0 || !fits || lease != R[1].token && !expired && GIVEN_UP))
#ifdef NO_EXPIRY
#define GIVEN_UP true
#else
#define GIVEN_UP false
#endif

/* Operators and time. */
proctype World() {
	byte i;
end:	do
	/* DEL, UNLINK, EXPIRE 0, RENAME, FLUSHDB: of what is not there nothing is announced. */
	:: d_step { EXISTS -> printf("somebody purges\n"); remove() }
#ifndef WAITING
	:: d_step { !purged -> printf("THE PURGE: DEL, while Redis holds version %d and lease %d\n", doc, lease); purged = 1;
		if
		:: EXISTS -> remove()
		:: else
		fi }
#endif
#ifndef MEMORY
	/* FLUSHDB, or the key beside it is removed alone. */
	:: d_step { lease != 0 -> printf("somebody removes the lease\n"); lease = 0; expired = 0; fits = 0; announcelease() }
#endif
#ifdef LEASE
	/* HSET fresh_until 0. */
	:: d_step { !purged -> printf("THE PURGE: HSET fresh_until 0\n"); purged = 1; soft = 1; fresh = ZERO; announce() }
	:: d_step { printf("somebody types HSET fresh_until 0\n"); fresh = ZERO; announce() }

	:: d_step { purged && !soft && doc == OLD -> printf("Redis holds what was purged\n"); assert(false) }   /* brought back */
	:: d_step { purged && doc == OLD && fresh == LATER -> printf("Redis holds as fresh what was purged\n"); assert(false) }  /* taken for fresh */
	:: d_step { FILLING(0) && FILLING(1) && STORES(R[0].token) && STORES(R[1].token) -> printf("two fetches can be stored\n"); assert(false) }
#endif
#ifdef MEMORY
	/* A tick: but not in the microseconds between asking and comparing. */
	:: d_step { visitor != ASKED -> printf("time passes, longer than memory is trusted\n");
		for (i : 0 .. REPLICAS - 1) {
#ifndef NO_HEARTBEAT
			R[i].heard = 0;
#endif
			R[i].change = R[i].change || R[i].change2; R[i].pong = 0; R[i].change2 = 0;
			R[i].mark.recent = 0; R[i].lmark.recent = 0; R[i].fmark.recent = 0; R[i].began = 0
		}
		i = 0;
		ago = purged }
#endif
#ifdef WAITING
	:: d_step { STUCK -> printf("replica 0 waits, and nothing will wake it\n"); assert(false) }
#endif
	od
}

init {
	byte n = 0;
	atomic {
		do
		:: n < REPLICAS ->
			run Flight(n);
			if
			:: OBSERVED(n) -> run Listen(n);
#ifndef WAITING
				run Look(n); run Visitor()
#endif
			:: else
			fi;
			n++
		:: else -> break
		od;
		run World()
	}
}
