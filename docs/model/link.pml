/*
 * What becomes of a copy when a replica loses its link to Redis, for spin: in which order changes,
 * pongs and replies reach it, and what is decided of a change that it was told of and could not look
 * at. README.md in this folder tells it. What a look means is cache.fate, which Go tests go through
 * over its whole domain; here it has the cases that one purge and one exchange of servers make.
 *
 * There are two servers behind one address: the first, and an empty one that takes over. A session
 * that listens to the first may still seem to be there. The replica holds a copy that was confirmed
 * on the first. At most one purge, made at the server to which the address leads, is watched. A guard
 * is removed by the macro of its name:
 *
 *   NO_DROP          a copy is dropped if the link is lost before a received change of its hash was
 *                    looked at
 *   ANY_CHANGE       ... but not for a change of the lease beside it
 *   NO_PONG          while listening, a look that shows another data set counts only after a ping
 *                    sent later was answered in that session
 *   OLD_LOOK         a look does not account for a change received after it began
 */

/* Truth. */
bool purged;                 /* the purge was made */
bool told;                   /* ... and the replica has received it */
bool moved;                  /* the address leads to the second server */
bool dead;                   /* the first one answers no more */
bool doc = 1;                /* the first has the document; the second has neither it nor its data set */

/* The session: it listens, and what is on its way to the replica, in this order. */
bool up = 1, second;         /* connected; to the second server */
bool hash, sibling;          /* a change of the hash, and one of the lease beside it */
bool ping, pong;             /* sent after the reply to the present look; answered */

/* The replica. */
bool copy = 1, lost;         /* it holds the copy; it offers it as one that Redis has lost */
bool listened = 1;           /* on one session since the copy was confirmed */
bool unseen, touched;        /* of the changes since then: one of the hash, any */

/* A look under way. */
mtype = { NONE, ASKED, ANSWERED };
mtype look = NONE;
bool there, other;           /* its reply: the document, another data set */
bool fresh;                  /* no change was received since it began */

#define OPEN (up && (second || !dead))      /* somebody is at the other end */

#ifdef NO_PONG
#define COUNTS true
#else
#define COUNTS (pong || !up || !listened || !(other || there && touched))
#endif

inline drop() { copy = 0; lost = 0; look = NONE; printf("the copy is dropped\n"); assert(purged) }

/* The link is lost: its session ends, or calls fail. */
inline part() {
	up = 0; hash = 0; sibling = 0; ping = 0; pong = 0; listened = 0;
	look = NONE;
	if
#ifdef ANY_CHANGE
	:: copy && touched -> drop()
#elif !defined(NO_DROP)
	:: copy && unseen -> drop()
#endif
	:: else
	fi;
	unseen = 0; touched = 0
}

active proctype World() {
end:	do
	:: atomic { copy && !purged && !moved && doc -> printf("THE PURGE: DEL\n"); purged = 1; doc = 0; hash = up && !second }
	:: atomic { copy && !moved && up -> printf("another replica takes a lease, or gives one back\n"); sibling = 1 }
	:: atomic { copy && !moved -> printf("an empty server takes the address, and the first one dies\n"); moved = 1; dead = 1 }
	od
}

active proctype Session() {
end:	do
	/* Pushes come before the pong of a ping that was sent after them. */
	:: atomic { copy && up && hash && !dead -> printf("the change of the hash is received\n");
		hash = 0; unseen = 1; touched = 1; fresh = 0; told = purged }
	:: atomic { copy && up && sibling && !dead -> printf("the change of the lease is received\n"); sibling = 0; touched = 1 }
	:: atomic { copy && ping && !pong && OPEN && !hash && !sibling -> printf("the pong is received\n"); pong = 1 }
	:: atomic { copy && up -> printf("the session ends\n"); part() }
	:: atomic { copy && !up && !unseen -> printf("another session begins\n"); up = 1; second = moved }
	od
}

active proctype Look() {
end:	do
	:: atomic { copy && look == NONE -> printf("a look begins\n"); look = ASKED; fresh = 1; ping = 0; pong = 0 }
	:: atomic { look == ASKED && !moved -> printf("the first server answers it\n"); look = ANSWERED; there = doc; other = 0; ping = up }
	:: atomic { look == ASKED && moved -> printf("the second server answers it\n"); look = ANSWERED; there = 0; other = 1; ping = up }
	/* Another data set, or the same document after a change: if the session is of another server, it will end. */
	:: atomic { look == ANSWERED && COUNTS -> printf("the look counts\n");
		if
		/* A client did this while we were connected, or it was a purge that was received. */
		:: other && (listened && touched || unseen) -> drop()
		:: other && !(listened && touched || unseen) -> lost = 1; printf("the copy is offered as lost\n"); assert(!told)
		:: !other && !there -> drop()
		:: !other && there ->
#ifdef OLD_LOOK
			unseen = 0; touched = 0;
#else
			unseen = unseen && !fresh; touched = touched && !fresh;
#endif
			listened = up && !second
		fi;
		look = NONE }
	od
}
