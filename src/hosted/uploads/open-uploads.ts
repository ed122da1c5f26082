import { randomUUID } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { ContentStore, Ingest, KeptDraft } from '../../storage/content/index.ts';
import type { UploadRow, UploadStore } from '../../storage/rows/index.ts';
import { createReservations, type Reservation } from './reservations.ts';

/** An upload that has not ended. */
export interface OpenUpload extends Upload {
  /** The account that started it. */
  readonly owner: string;
  readonly reservation: Reservation;
  /** Its bytes. Undefined until a request continues an upload of a former server. */
  ingest: Ingest | undefined;
  /** What survives the end of this server. */
  kept: KeptDraft | undefined;
  /** How often this server has kept its bytes. */
  keeps: number;
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

/**
 * A blob on its way into a repository. The received bytes stay when a connection breaks, and the client can resume. Chunks
 * that were acknowledged also stay when the server ends.
 */
export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes so far. */
  readonly size: number;
}

/** The uploads that have not ended. */
interface OpenUploads {
  /** Throws a {@link Fault} (429) when the owner, or all owners together, have too many. */
  start(repository: string, owner: string, algorithm?: DigestAlgorithm): Promise<OpenUpload>;
  /**
   * Throws a {@link Fault}: 404 for an upload that has ended or never existed, 503 while another server may have it.
   */
  find(repository: string, id: string): OpenUpload;
  has(upload: OpenUpload): boolean;
  /** Returns the bytes of an upload. Ends it and throws a {@link Fault} (404) when they are no longer here. */
  ingestOf(upload: OpenUpload): Promise<Ingest>;
  /** Throws a {@link Fault} (400) for an upload with so many chunks that no more are kept. */
  requireRoom(upload: OpenUpload): void;
  /** Makes the bytes so far survive the end of the server. Does nothing for an upload that has ended. */
  keep(upload: OpenUpload): Promise<void>;
  /** Returns an upload to the bytes that are kept, after a failed write. Ends it when none are. */
  goBack(upload: OpenUpload): Promise<void>;
  /** Ends an upload and removes its bytes. Does nothing for one that has ended. */
  end(upload: OpenUpload): Promise<void>;
  values(): Iterable<OpenUpload>;
}

export interface OpenUploadsDeps {
  readonly content: ContentStore;
  readonly store: UploadStore;
  /** What the former server has kept. */
  readonly kept: readonly UploadRow[];
  /** Returns false while another server may have taken the uploads. */
  readonly isCurrent: () => boolean;
}

// Each upload has a file open. A client pushes only some blobs at a time.
const mostOfOwner = 500;
export const mostOpen = 2000;
// Each chunk makes an object in a bucket, and costs its removal.
const mostKeeps = 100_000;

export function createOpenUploads(deps: OpenUploadsDeps): OpenUploads {
  const { content, store, kept, isCurrent } = deps;
  const uploads = new Map<string, OpenUpload>();
  const openOf = new Map<string, number>();
  let openInAll = 0;
  const reserve = createReservations();

  const countOpen = (owner: string, change: 1 | -1): void => {
    const open = (openOf.get(owner) ?? 0) + change;
    openInAll += change;
    if (open > 0) openOf.set(owner, open);
    else openOf.delete(owner);
  };

  const add = (
    upload: Pick<OpenUpload, 'id' | 'repository' | 'owner' | 'ingest' | 'kept' | 'usedAt'>,
  ): OpenUpload => {
    const added: OpenUpload = {
      ...upload,
      reservation: reserve(upload.repository),
      get size() {
        return this.ingest?.size ?? this.kept?.size ?? 0;
      },
      keeps: 0,
      sending: undefined,
      flush: async () => {},
    };
    uploads.set(added.id, added);
    return added;
  };

  const takeUp = ({ id, repository, owner, draft, algorithm, size }: UploadRow): void => {
    countOpen(owner, 1);
    const upload = add({
      id,
      repository,
      owner,
      ingest: undefined,
      kept: { draft, algorithm, size },
      // Its client had no server until now, and the clock may be another one.
      usedAt: performance.now(),
    });
    upload.reservation.set(size);
  };
  for (const row of kept) takeUp(row);

  const end = async (upload: OpenUpload): Promise<void> => {
    clearTimeout(upload.ending);
    if (uploads.delete(upload.id)) {
      countOpen(upload.owner, -1);
      upload.reservation.set(0);
    }
    const { ingest, kept: left } = upload;
    try {
      if (left) await store.remove(upload.id);
    } catch {
      // Another server may lead by now and continue it: what is kept stays, and the next start takes it up.
      await ingest?.leave();
      return;
    }
    if (ingest) await ingest.abort();
    else if (left) await content.drop(left);
  };

  return {
    end,
    has: upload => uploads.has(upload.id),
    values: () => uploads.values(),

    find(repository, id) {
      const upload = uploads.get(id);
      if (upload?.repository === repository) return upload;
      if (!isCurrent()) throw uploadElsewhere();
      throw unknownUpload();
    },

    async start(repository, owner, algorithm) {
      if (openInAll >= mostOpen || (openOf.get(owner) ?? 0) >= mostOfOwner) throw tooMany();
      // Before the first wait, so that simultaneous callers count this upload too.
      countOpen(owner, 1);
      const ingest = await content.ingest(algorithm).catch(error => {
        countOpen(owner, -1);
        throw error;
      });
      const usedAt = performance.now();
      return add({ id: randomUUID(), repository, owner, ingest, kept: undefined, usedAt });
    },

    async ingestOf(upload) {
      if (upload.ingest) return upload.ingest;
      upload.ingest = upload.kept && (await content.resume(upload.kept));
      if (upload.ingest) return upload.ingest;
      await end(upload);
      throw unknownUpload();
    },

    requireRoom({ keeps }) {
      if (keeps < mostKeeps) return;
      throw new Fault(
        'bad-request',
        `An upload can have at most ${mostKeeps} chunks: send larger ones, or the whole blob in one request`,
        { phase: 'push' },
      );
    },

    async goBack(upload) {
      const { ingest, kept: left } = upload;
      if (!ingest || !left) return await end(upload);
      upload.ingest = undefined;
      upload.reservation.set(left.size);
      await ingest.leave();
    },

    async keep(upload) {
      const { id, repository, owner, ingest } = upload;
      if (!ingest || !uploads.has(id)) return;
      upload.keeps += 1;
      upload.kept = await ingest.keep();
      await store.keep({ id, repository, owner, ...upload.kept, usedAt: Date.now() });
    },
  };
}

function unknownUpload(): Fault {
  return new Fault(
    'upload-unknown',
    'The upload does not exist or has ended: start the push of this blob again',
    { phase: 'push' },
  );
}

function uploadElsewhere(): Fault {
  return new Fault(
    'unavailable',
    'Another server of this site may have the upload: try again in a moment',
    { phase: 'store', retryAfterSeconds: 1 },
  );
}

function tooMany(): Fault {
  return new Fault(
    'too-many-requests',
    'Too many uploads are open: finish or cancel some of them (DELETE), or try again later',
    { phase: 'push', retryAfterSeconds: 30 },
  );
}

/** Gathers small pieces into large writes, and accepts more pieces during a write. */
interface Batches {
  /** Resolves when the caller can add more. Rejects after a failed write. */
  add(bytes: Uint8Array): Promise<void>;
  /** Writes all pieces so far; more can be added meanwhile. Rejects after a failed write. */
  flush(): Promise<void>;
}

const batchBytes = 1024 * 1024;

/** @param write writes one batch; it is not called again before it has settled */
export function createBatches(write: (batch: Uint8Array[]) => Promise<void>): Batches {
  let batch: Uint8Array[] = [];
  let size = 0;
  let writing: Promise<void> = Promise.resolve();

  /** Starts to write the batch after the previous one; resolves when the previous one is written. */
  const begin = (): Promise<void> => {
    const before = writing;
    if (size === 0) return before;
    const full = batch;
    batch = [];
    size = 0;
    writing = before.then(() => write(full));
    // The next caller that waits for the write receives the error.
    writing.catch(() => {});
    return before;
  };

  return {
    async add(bytes) {
      batch.push(bytes);
      size += bytes.length;
      if (size >= batchBytes) await begin();
    },
    async flush() {
      await begin();
      await writing;
    },
  };
}
