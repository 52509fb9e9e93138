/*
 * What becomes of a document when Redis restarts, with or without its data, for spin. README.md in this
 * folder tells it. The lease, and memory while Redis lives, are in coherence.pml.
 *
 * One replica is looked at; of the others the model has what they do to Redis. One purge is watched; of
 * a document it matters whether its fetch began before that purge (OLD) or after it (NEW). Names and
 * numbers that the code compares are told apart only as far as the comparison goes. How often anything
 * happens is limited; looks and connections are not.
 *
 * In the world NEWEST nothing is purged: in place of the purge the CMS has a newer version.
 */
#define NONE 0
#define OLD  1
#define NEW  2
#define CMS  (purged -> NEW : OLD)

#ifdef CUT        /* a connection is lost while Redis lives, and there is no other replica; or the reverse */
#define CUTS 1
#define OTHERS 0
#else
#define CUTS 0
#define OTHERS 1
#endif
#ifdef NEWEST
#define WATCHES false       /* a purge */
#else
#define WATCHES true
#endif
/* What may still happen: restarts of Redis, losses of the connection alone, loads without Redis, leases
   of another replica and of this one. */
byte restarts = 1, cuts = CUTS, alones = 1, others = OTHERS, acquires = 1;

/* What the replica knows, and what Redis held then. [cache.entry cache.held watch.Mark] */
typedef Entry {
	byte ver;
	byte since, before;     /* changes received since its mark, up to 3; of those, before the present connection */
	byte own;               /* so many of them are allowed for */
	bool flushed;           /* one of them was of everything */
	bool unstored, lost, held;
	byte vacant, proc;      /* the name of the hash without a document; the process of Redis */
	bool set, bare          /* its data set is still the present one; there was none */
}
#define SAME  1             /* as Redis has it now */
#define OTHER 2
Entry M, P, S, F, Q;        /* memory; an asker's memory before; what it finds; what a flight has found, or loaded; its release */

/* Redis. */
byte doc, lease, proc = 1;
bool back, vacant, set, named;   /* ...; the hash without a document has the name of the data set */
byte theirver;
#define MINE   1            /* the lease of the present flight, of one that was given up, of another replica */
#define EARLIER 2
#define ORPHAN 3
#define THEIRS 4

/* The listening connection: Redis pushes on it; it was greeted; the process that it leads to. */
bool hears, live;
byte leads;
byte wrote;                 /* own writes not announced yet */
bool whole;                 /* listening has been whole since the write under way began */
chan push = [2] of { byte };
#define CHANGE 1
#define PURGE  2
#define FLUSH  3
#define ROOM   (len(push) < 2)

bool purged, received, excused;   /* the watched purge; see README.md */
bool unseen;                      /* it is a flush of a Redis that the replica takes for empty: it counts once received */

inline announce(WHAT) { if :: hears -> push!WHAT :: else fi }
inline none(E) { E.ver = 0; E.since = 0; E.before = 0; E.own = 0; E.flushed = 0; E.bare = 0; E.unstored = 0; E.lost = 0; E.held = 0; E.vacant = 0; E.set = 0; E.proc = 0 }
inline copy(E, G) { E.ver = G.ver; E.since = G.since; E.before = G.before; E.own = G.own; E.flushed = G.flushed; E.bare = G.bare; E.unstored = G.unstored; E.lost = G.lost; E.held = G.held; E.vacant = G.vacant; E.set = G.set; E.proc = G.proc }

/* A change is received, or counted as if it had been. [watch.Key.change] */
inline one(E) { E.since = (E.since < 3 && E.proc != 0 -> E.since + 1 : E.since) }
inline change() { one(M); one(P); one(S); one(F); one(Q) }
inline flush() { M.flushed = (M.proc != 0); P.flushed = (P.proc != 0); S.flushed = (S.proc != 0); F.flushed = (F.proc != 0); Q.flushed = (Q.proc != 0) }
inline allbefore() { M.before = M.since; P.before = P.since; S.before = S.since; F.before = F.since; Q.before = Q.since }
/* Redis has another hash without a document than before, or none. */
inline other(E) { E.vacant = (E.vacant == 0 -> 0 : OTHER) }
inline newvacant(V) { vacant = V; named = V && !set; other(M); other(P); other(S); other(F) }
inline noset() { set = 0; M.set = 0; P.set = 0; S.set = 0; F.set = 0 }

#ifdef FLUSH_FORGOTTEN
#define FLUSHED(E) false
#else
#define FLUSHED(E) (E.lost && E.flushed) /* [watch.Key.Flushed] */
#endif
#define WITHDRAWN(E) (E.since > E.own)   /* [watch.Key.Withdrawn] */
#ifdef NO_BEFORE
#define WITHDRAWNBEFORE(E, R) false
#else
#define WITHDRAWNBEFORE(E, R) (leads == R -> E.before > E.own || E.flushed : WITHDRAWN(E))   /* [watch.Key.WithdrawnBefore] */
#endif
#ifdef NO_PROCESS
#define RESTARTED(E, R) (!WITHDRAWNBEFORE(E, R))
#else
#define RESTARTED(E, R) (E.proc != R && !WITHDRAWNBEFORE(E, R))
#endif

/* What an asker is at; what a flight is at. */
mtype = { IDLE, MARKED, READ, LOADING, RELEASING, RELEASED, ALONE };
mtype asker = IDLE, flight = IDLE;
bool acquiring, after, later;      /* the asker is an acquire; the purge came before it; its mark is later than the release's */
bool untouched, otherset;          /* what it has compared */
byte loads;                        /* what the flight loads */
bool looked;                       /* memory is from a look whose mark is later than the release's */
byte late;                         /* a release that puts this version back, was given up, and is carried out all the same */

inline rest() { none(P); none(S); asker = IDLE; acquiring = 0; after = 0; later = 0; untouched = 0; otherset = 0 }
inline land() { none(F); none(Q); flight = IDLE; loads = 0; looked = 0; if :: lease == MINE -> lease = ORPHAN :: else fi }

/* Unless what is there was read later, with a change in between. [cache.Reader.admit watch.Mark.After] */
inline admit(E) { if :: M.proc != 0 && M.since < E.since -> skip :: else -> copy(M, E); looked = later fi }

/* A mark allows for the own writes that are not announced yet. [watch.Key.Mark] */
inline mark(E) { E.proc = proc; E.own = wrote }
/* What the reply to a write says allows for one change more. [watch.Key.Write] */
inline over(E) {
#ifdef OWN_ANYWHERE
	E.own++;
#else
	E.own = E.own + whole;
#endif
	wrote = (E.own > E.since + wrote -> E.own - E.since : wrote)
}
/* Redis is read, and compared with what is in memory. [cache.Reader.untouched] */
inline compare() {
	copy(P, M); after = purged && (received || !unseen);
#ifdef NO_SET
	otherset = 1;
#else
	otherset = !P.set;
#endif
#ifdef ANY_VACANT
	untouched = !P.held && doc == NONE && (P.vacant != 0 || P.lost)
#else
	untouched = !FLUSHED(P) && (P.vacant != 0 -> P.vacant == SAME : !P.held && P.lost && P.bare && (doc == NONE || back) && (vacant -> named : !set))
#endif
}
inline found() { S.held = (doc != NONE); S.vacant = vacant; S.set = set; S.bare = !set }
/* [cache.Reader.reconcile cache.Reader.lose] */
inline reconcile() {
	if
	:: P.ver > S.ver && P.unstored && untouched && (S.ver == NONE || S.lost) -> S.ver = P.ver; S.unstored = 1; S.lost = P.lost
	:: P.ver > S.ver && !(P.unstored && untouched) && RESTARTED(P, S.proc) && (S.ver == NONE && otherset || S.lost) ->
		printf("the replica takes version %d for lost\n", P.ver); S.ver = P.ver; S.unstored = 1; S.lost = 1
	:: else
	fi;
#ifdef NEWEST
	if
	:: P.ver == NEW && P.lost && P.unstored && (S.ver == NONE || S.ver == OLD && S.lost) -> printf("the replica gives up the newest copy\n"); assert(false)
	:: else
	fi;
#endif
	admit(S);
#ifndef NEWEST
	if
	:: after && S.ver == OLD && !excused -> printf("the replica offers what was purged\n"); assert(false)
	:: else
	fi
#endif
}

/* Nothing more can go wrong: no copy is left that is older than the purge; or the replica is excused. */
#define GONE (M.ver != OLD && P.ver != OLD && S.ver != OLD && F.ver != OLD && loads != OLD && late != OLD && theirver != OLD && doc != OLD)
#define OVER (excused || purged && GONE)

/* The listening connection. [watch.Server.listen watch.Server.session] */
proctype Listen() provided (!OVER) {
	byte what;
end:	do
	:: d_step { len(push) > 0 -> push?what;
		change(); wrote = (wrote > 0 -> wrote - 1 : 0);
		if
		:: what == CHANGE -> printf("the replica receives a change\n")
		:: what == PURGE -> printf("the replica receives the purge\n"); received = 1
		:: what == FLUSH -> printf("the replica receives the purge\n"); received = 1; flush()
		fi;
		what = 0 }
	:: d_step { hears && !live && len(push) == 0 -> printf("the replica listens\n"); live = 1 }
	:: d_step { !hears -> printf("the replica connects again\n");
		do :: len(push) > 0 -> push?_ :: else -> break od;
		do :: wrote > 0 -> change(); wrote-- :: else -> break od;   /* [watch.Key.listen watch.Key.unannounced] */
		live = 0; whole = 0; allbefore(); leads = proc; hears = 1 }
	:: d_step { hears && cuts > 0 -> printf("the listening connection is lost\n"); hears = 0; cuts-- }
	od
}

/* Looks and acquires. [cache.Reader.look cache.Reader.acquire cache.Reader.learn look.lua acquire.lua] */
proctype Ask() provided (!OVER) {
end:	do
	:: d_step { asker == IDLE -> printf("a look begins\n"); asker = MARKED; mark(S); later = (flight == RELEASING || flight == RELEASED) }
	:: d_step { asker == IDLE && flight == IDLE && acquires > 0 -> printf("a flight begins\n"); asker = MARKED; acquiring = 1; mark(S); whole = live; acquires-- }
	:: d_step { asker == MARKED && !acquiring && S.proc == proc -> printf("it reads version %d\n", doc);
		compare(); found(); S.ver = doc; S.lost = back; asker = READ }
	:: d_step { asker == MARKED && acquiring && S.proc == proc && ROOM && lease != THEIRS ->
		printf("it takes the lease, and Redis holds version %d\n", doc);
		lease = MINE; compare();
		if :: doc == NONE && !vacant -> newvacant(1) :: else fi;
		set = 1; found(); S.ver = doc; S.lost = back; announce(CHANGE); asker = READ }
	:: d_step { asker == READ ->
		if :: acquiring -> over(S) :: else fi;
		reconcile();
		if
		:: acquiring -> copy(F, S); flight = LOADING; loads = CMS; printf("it begins to load version %d\n", loads)
		:: else
		fi;
		rest() }
	/* No reply. */
	:: d_step { asker != IDLE -> if :: acquiring -> land() :: else fi; rest() }
	od
}

/* [cache.Reader.keep] */
inline keep() {
	if
#ifndef KEEP_WITHDRAWN
	:: WITHDRAWN(F) -> skip
#endif
#ifndef KEEP_STRANGE
	:: M.proc != 0 && M.proc != F.proc -> skip
#endif
	:: else -> printf("it keeps version %d for itself\n", F.ver); admit(F);
		if
		:: WATCHES && received && F.ver == OLD && !excused -> printf("whoever waits for it is given what was purged\n"); assert(false)
		:: else
		fi
	fi
}
/* [release.lua] */
#ifdef RESTORE_APART
#define RESTORES(T) true
#else
#define RESTORES(T) (lease == T)
#endif
#ifdef NAME_GONE
inline unname() { newvacant(0) }
#else
inline unname() { skip }
#endif
inline restore(V) {
	printf("version %d is put back\n", V);
	if
	:: doc < V -> doc = V; back = 1; unname()
	:: else
	fi;
	lease = 0; theirver = 0; announce(CHANGE)
}

/* Flights. [cache.Reader.fetch cache.Reader.giveUp cache.Reader.loadAlone] */
proctype Flight() provided (!OVER) {
end:	do
	:: d_step { flight == LOADING -> printf("the CMS fails\n"); flight = RELEASING; loads = 0; mark(Q); whole = live; F.lost = F.lost && !F.flushed; excused = excused || F.lost && unseen && !received }
	:: d_step { flight == RELEASING && ROOM && F.lost && F.unstored && RESTORES(MINE) -> restore(F.ver); flight = RELEASED }
	:: d_step { flight == RELEASING && ROOM && !(F.lost && F.unstored) && lease == MINE -> printf("the lease is given back\n"); lease = 0; announce(CHANGE); flight = RELEASED }
	:: d_step { flight == RELEASING && !RESTORES(MINE) -> land() }
	:: d_step { flight == RELEASED ->     /* [cache.Reader.vouch] */
		over(Q);
		if
		:: M.proc != 0 && !looked -> M.since = Q.since; M.before = Q.before; M.own = Q.own
		:: else
		fi;
		land() }
	:: d_step { flight == RELEASING && F.lost && F.unstored && late == 0 -> printf("it gives up waiting for its release\n"); late = F.ver;
		if :: lease == MINE -> lease = EARLIER :: else fi; land() }
	:: d_step { flight == RELEASED -> land() }
	:: d_step { late != 0 && ROOM && RESTORES(EARLIER) -> printf("its late release is carried out\n"); restore(late); late = 0 }
	/* It is loaded, and neither the fill nor the release has a reply. [cache.Reader.fetch] */
	:: d_step { flight == LOADING && alones > 0 -> printf("it has loaded version %d, and Redis cannot be reached\n", loads); F.ver = loads; F.unstored = 1; F.lost = 0; keep(); land(); alones-- }
	/* Redis cannot be reached. */
	:: d_step { flight == IDLE && !acquiring && alones > 0 -> flight = ALONE; copy(F, M); F.ver = CMS; F.since = 0; F.before = 0; F.own = wrote; F.flushed = 0; F.unstored = 1; F.lost = 0;
		if :: F.proc == 0 -> F.proc = proc :: F.proc == 0 && proc > 1 -> F.proc = proc - 1 :: F.proc != 0 fi; alones--;
		printf("Redis cannot be reached: it begins to load version %d\n", F.ver) }
	:: d_step { flight == ALONE -> keep(); land() }
	od
}

/* What the replica cannot tell from a loss: see README.md. */
#define STRANGER(E) (E.proc != 0 && E.proc != proc)
#define STRANGE (STRANGER(M) || STRANGER(P) || STRANGER(S) || M.proc == 0 && STRANGER(F))
#define LOSTTO(E) (E.lost && E.unstored && E.vacant == 0)
#define UNSEEN (LOSTTO(M) || LOSTTO(P) || asker == READ && P.proc != S.proc && S.ver == NONE && S.vacant == 0)

#define UNNAMED (M.ver == OLD && !M.set || P.ver == OLD && !P.set || S.ver == OLD && !S.set || F.proc != 0 && !F.set)

inline remove() { doc = NONE; back = 0; newvacant(0); lease = 0; theirver = 0 }

/* Another replica, operators, and Redis. */
proctype World() provided (!OVER) {
end:	do
	:: d_step { ROOM && others > 0 && lease != MINE && lease != THEIRS -> printf("another replica takes the lease and begins to load version %d\n", CMS);
		lease = THEIRS; theirver = CMS; others--;
		if :: doc == NONE && !vacant -> newvacant(1) :: else fi;
		set = 1; announce(CHANGE) }
	:: d_step { ROOM && lease == THEIRS -> printf("another replica fills: version %d\n", theirver);
		doc = theirver; back = 0; newvacant(0); lease = 0; theirver = 0; announce(CHANGE) }
	:: d_step { ROOM && lease == THEIRS -> printf("another replica gives the lease back\n"); lease = 0; theirver = 0; announce(CHANGE) }
	:: d_step { ROOM && lease == THEIRS && (theirver == OLD || !WATCHES) && doc == NONE && proc > 1 -> printf("another replica puts back version 1\n");
		doc = OLD; back = 1; unname(); lease = 0; theirver = 0; announce(CHANGE) }
#ifdef NEWEST
	:: d_step { !purged -> printf("the CMS has a newer version\n"); purged = 1 }
#else
	:: d_step { ROOM && !purged -> printf("THE PURGE: DEL\n"); purged = 1;
		if :: doc != NONE || vacant || lease != 0 -> excused = STRANGE; remove(); announce(PURGE) :: else -> excused = 1 fi }
	:: d_step { ROOM && !purged -> printf("THE PURGE: FLUSHALL\n"); purged = 1;
		excused = !hears && proc > 1; unseen = UNSEEN || STRANGE;
		remove(); noset(); announce(FLUSH) }
#endif
	:: d_step { restarts > 0 -> printf("Redis restarts without its data\n");
		excused = excused || WATCHES && purged && !received;
		remove(); noset(); hears = 0; proc++; restarts--; late = 0 }
	:: d_step { restarts > 0 -> printf("Redis restarts with its data\n"); excused = excused || WATCHES && purged && !received && UNNAMED; hears = 0; proc++; restarts--; late = 0 }
	:: d_step { WATCHES && purged && doc == OLD && !excused -> printf("Redis holds what was purged\n"); assert(false) }
	:: d_step { WATCHES && received && M.ver == OLD && !WITHDRAWN(M) && !M.flushed && !excused -> printf("the replica offers what was purged\n"); assert(false) }
	od
}

init {
	atomic {
		leads = 1; hears = 1; live = 1;
		if
		:: skip
		:: doc = OLD; set = 1; M.ver = OLD; M.held = 1; M.set = 1; M.proc = 1
		fi;
		run Listen(); run Ask(); run Flight(); run World()
	}
}
