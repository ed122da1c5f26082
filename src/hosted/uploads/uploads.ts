import { randomUUID } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { type Digest, type DigestAlgorithm, splitDigest } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import type { Ingest } from '../../storage/content/ingest.ts';
import type { HostedBlobs } from '../blobs.ts';
import { createBatches } from './batches.ts';
import type { Quota } from './quota.ts';
import { createReservations, type Reservation } from './reservations.ts';

/** The bytes of a request, and a way for the server to end it. */
export interface UploadBody {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Bytes, when the request announces them. */
  readonly length: number | undefined;
  stop(reason: Error): void;
}

/** The range of bytes in a request, both ends included. */
export interface ChunkRange {
  readonly start: number;
  readonly end: number;
}

/** A blob on its way into a repository. The received bytes stay when a connection breaks, and the client can resume. */
export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes so far. */
  readonly size: number;
}

/** All methods except `start` throw a {@link Fault} (404) for an upload that has ended or never existed. */
export interface Uploads {
  /** Throws a {@link Fault} (429) when the owner, or all owners together, have too many open uploads. */
  start(repository: string, owner: string, algorithm?: DigestAlgorithm): Promise<Upload>;
  find(repository: string, id: string): Upload;
  /** Returns the state of an upload, including the bytes received so far from a request that is still sending. */
  state(repository: string, id: string): Promise<Upload>;
  /** Appends a chunk; rejects one that does not begin at the end of the last one (416). */
  append(
    repository: string,
    id: string,
    body: UploadBody,
    range: ChunkRange | undefined,
  ): Promise<Upload>;
  /**
   * Appends the last bytes and makes the upload a blob. Throws (400) when the digest differs; the upload has ended
   * then. After a failure of the service (503), a client may repeat the request, with the same bytes or none.
   */
  finish(
    repository: string,
    id: string,
    body: UploadBody,
    range: ChunkRange | undefined,
    digest: Digest,
  ): Promise<void>;
  cancel(repository: string, id: string): Promise<void>;
  /** Ends uploads that have received nothing for longer than the given time (ms). */
  expire(idleMs: number): Promise<void>;
}

export interface UploadsDeps {
  readonly content: ContentStore;
  readonly blobs: HostedBlobs;
  readonly quota: Quota;
}

interface Session extends Upload {
  /** The account that started it. */
  readonly owner: string;
  readonly reservation: Reservation;
  readonly ingest: Ingest;
  /** Its digest, once all its bytes are here. */
  whole?: Digest;
  /** Ends it after a failure of the service, unless the client repeats its request. */
  ending?: NodeJS.Timeout;
  /** On the scale of `performance.now`: a change of the wall clock does not end an upload. */
  usedAt: number;
  /** The request that is sending, if any. */
  sending: { readonly body: UploadBody; readonly done: Promise<unknown> } | undefined;
  /** Writes the bytes that the request has brought so far. */
  flush: () => Promise<void>;
}

export function createUploads({ content, blobs, quota }: UploadsDeps): Uploads {
  const sessions = new Map<string, Session>();
  const openOf = new Map<string, number>();
  let openInAll = 0;
  const reserve = createReservations();

  const find = (repository: string, id: string): Session => {
    const session = sessions.get(id);
    if (session?.repository === repository) return session;
    throw new Fault(
      'upload-unknown',
      'The upload does not exist or has ended: start the push of this blob again',
      { phase: 'push' },
    );
  };

  const countOpen = (owner: string, change: 1 | -1): void => {
    const open = (openOf.get(owner) ?? 0) + change;
    openInAll += change;
    if (open > 0) openOf.set(owner, open);
    else openOf.delete(owner);
  };

  const end = async (session: Session): Promise<void> => {
    clearTimeout(session.ending);
    if (sessions.delete(session.id)) {
      countOpen(session.owner, -1);
      session.reservation.set(0);
    }
    await session.ingest.abort();
  };

  /** Other clients begin a new upload: this one must not count as open until it expires. */
  const endSoon = (session: Session): void => {
    const run = () => void end(session).catch(() => {});
    session.ending = setTimeout(run, repeatedWithinMs).unref();
  };

  /** Runs a request of an upload, after it has ended an older request that is still running. */
  const exclusively = async <T>(
    repository: string,
    id: string,
    body: UploadBody,
    work: (session: Session) => Promise<T>,
  ): Promise<T> => {
    const session = find(repository, id);
    // A client sends one request at a time: an older one belongs to a dead connection.
    while (session.sending) {
      const { sending } = session;
      sending.body.stop(new Error('a newer request continues this upload'));
      await sending.done;
    }
    find(repository, id);
    const running = work(session);
    const done = running.catch(() => {});
    session.sending = { body, done };
    try {
      return await running;
    } finally {
      session.sending = undefined;
      session.usedAt = performance.now();
    }
  };

  /** An error here ends the upload; a broken connection does not. */
  const write = async (session: Session, batch: Uint8Array[]): Promise<void> => {
    try {
      await session.ingest.write(...batch);
    } catch (error) {
      await end(session);
      throw error;
    }
  };

  const receive = async (session: Session, body: UploadBody, range: ChunkRange | undefined) => {
    const { ingest, repository, reservation } = session;
    checkRange(range, body.length, ingest.size);
    const batches = createBatches(bytes => write(session, bytes));
    session.flush = batches.flush;
    let received = ingest.size;
    let admitted = received + (body.length ?? 0);
    const admit = async (bytes: number): Promise<void> => {
      // Reserved before the check of existing bytes, so that simultaneous uploads count each other.
      reservation.set(bytes);
      await quota.admit(repository, bytes, reservation.others());
    };
    await admit(admitted).catch(error => {
      reservation.set(ingest.size);
      throw error;
    });
    try {
      for await (const bytes of body.chunks) {
        received += bytes.length;
        if (received > admitted) {
          await admit(received);
          admitted = received + uncheckedBytes;
        }
        if (body.length === undefined) reservation.set(received);
        await batches.add(bytes);
      }
    } catch (error) {
      await batches.flush();
      // Announced bytes that did not come take no space.
      if (sessions.has(session.id)) reservation.set(ingest.size);
      if (error instanceof Fault) await end(session);
      throw error;
    }
    await batches.flush();
  };

  /** Ends an upload that has all its bytes, and now gets a request for other ones. */
  const requireUnfinished = async (session: Session): Promise<void> => {
    const { whole, ingest } = session;
    if (whole === undefined) return;
    await end(session);
    throw otherDigest(ingest.size, whole);
  };

  /** Receives the last bytes of an upload with this digest. */
  const complete = async (
    session: Session,
    body: UploadBody,
    range: ChunkRange | undefined,
    digest: Digest,
  ): Promise<void> => {
    const { ingest } = session;
    await requireUnfinished(session);
    const { algorithm } = splitDigest(digest);
    // Before the bytes, when they all come now: otherwise they would have to be read again.
    if (ingest.size === 0) await ingest.hashWith(algorithm);
    await receive(session, body, range);
    try {
      await ingest.hashWith(algorithm);
      const found = ingest.digest();
      if (found !== digest) throw otherDigest(ingest.size, found, digest);
    } catch (error) {
      await end(session);
      throw error;
    }
    session.whole = digest;
  };

  return {
    async start(repository, owner, algorithm) {
      if (openInAll >= mostOpen || (openOf.get(owner) ?? 0) >= mostOfOwner) throw tooMany();
      // Before the first wait, so that simultaneous callers count this upload too.
      countOpen(owner, 1);
      const ingest = await content.ingest(algorithm).catch(error => {
        countOpen(owner, -1);
        throw error;
      });
      const session: Session = {
        id: randomUUID(),
        repository,
        owner,
        reservation: reserve(repository),
        ingest,
        get size() {
          return ingest.size;
        },
        usedAt: performance.now(),
        sending: undefined,
        flush: async () => {},
      };
      sessions.set(session.id, session);
      return session;
    },

    find,

    async state(repository, id) {
      const session = find(repository, id);
      // The request that brought the bytes gets the error of a failed write, which ends the upload.
      await session.flush().catch(() => {});
      return find(repository, id);
    },

    append: (repository, id, body, range) =>
      exclusively(repository, id, body, async session => {
        await requireUnfinished(session);
        await receive(session, body, range);
        return session;
      }),

    finish: (repository, id, body, range, digest) =>
      exclusively(repository, id, body, async session => {
        const { ingest } = session;
        clearTimeout(session.ending);
        if (session.whole !== digest) await complete(session, body, range, digest);
        else {
          await skip(body, ingest.size).catch(error => {
            endSoon(session);
            throw error;
          });
        }
        try {
          await ingest.commit();
          // From here on it counts as a part of the repository.
          session.reservation.set(0);
          await blobs.link(repository, digest, ingest.size);
        } catch (error) {
          // Clients repeat the request after 503.
          if (error instanceof Fault && error.kind === 'unavailable') endSoon(session);
          else await end(session);
          throw error;
        }
        await end(session);
      }),

    async cancel(repository, id) {
      const session = find(repository, id);
      session.sending?.body.stop(new Error('the upload was cancelled'));
      await session.sending?.done;
      await end(session);
    },

    async expire(idleMs) {
      const since = performance.now() - idleMs;
      for (const session of sessions.values()) {
        if (!session.sending && session.usedAt < since) await end(session);
      }
    },
  };
}

/** Reads bytes that are here already: many clients read no answer before they have sent their request. */
async function skip(body: UploadBody, size: number): Promise<void> {
  let skipped = 0;
  for await (const { length } of body.chunks) {
    skipped += length;
    if (skipped > size) {
      throw new Fault('size-invalid', `The upload has ended with ${size} bytes: send no more`, {
        phase: 'push',
      });
    }
  }
}

function otherDigest(size: number, found: Digest, wanted = 'another one'): Fault {
  return new Fault(
    'digest-invalid',
    `The digest of the ${size} bytes received is ${found}, not ${wanted}: push the blob again`,
    { phase: 'push' },
  );
}

const repeatedWithinMs = 30_000;

// Each upload has a file open. A client pushes only some blobs at a time.
const mostOfOwner = 500;
const mostOpen = 2000;

function tooMany(): Fault {
  return new Fault(
    'too-many-requests',
    'Too many uploads are open: finish or cancel some of them (DELETE), or try again later',
    { phase: 'push', retryAfterSeconds: 30 },
  );
}

// Without an announced length, so many bytes are accepted between two checks of the quota.
const uncheckedBytes = 4 * 1024 * 1024;

function checkRange(range: ChunkRange | undefined, length: number | undefined, size: number): void {
  if (!range) return;
  const { start, end } = range;
  if (start !== size) {
    throw new Fault(
      'chunk-invalid',
      `The chunk begins at ${start}, but the upload has ${size} bytes: request its state with GET, and resume there`,
      { phase: 'push' },
    );
  }
  if (length !== undefined && end - start + 1 !== length) {
    throw new Fault(
      'size-invalid',
      `Content-Range specifies ${end - start + 1} bytes, but Content-Length ${length}: send the same number in both`,
      { phase: 'push' },
    );
  }
}
