import { randomUUID } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import type { Ingest, KeptDraft } from '../../storage/content/ingest.ts';
import type { UploadRow, UploadStore } from '../../storage/rows/hosted/upload-rows.ts';
import { createReservations, type Reservation } from './reservations.ts';
import type { Upload, UploadBody } from './upload.ts';

/** An upload that has not ended. */
export interface OpenUpload extends Upload {
  /** The account that started it. */
  readonly owner: string;
  readonly reservation: Reservation;
  /** Its bytes. Undefined until a request continues an upload of a former server. */
  ingest: Ingest | undefined;
  /** What survives the end of this server. */
  kept: KeptDraft | undefined;
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

/** The uploads that have not ended. */
export interface OpenUploads {
  /** Throws a {@link Fault} (429) when the owner, or all owners together, have too many. */
  start(repository: string, owner: string, algorithm?: DigestAlgorithm): Promise<OpenUpload>;
  /** Throws a {@link Fault} (404) for an upload that has ended or never existed. */
  find(repository: string, id: string): OpenUpload;
  has(upload: OpenUpload): boolean;
  /** Returns the bytes of an upload. Ends it and throws a {@link Fault} (404) when they are no longer here. */
  ingestOf(upload: OpenUpload): Promise<Ingest>;
  /** Makes the bytes so far survive the end of the server. */
  keep(upload: OpenUpload): Promise<void>;
  /** Ends an upload and removes its bytes. Does nothing for one that has ended. */
  end(upload: OpenUpload): Promise<void>;
  values(): Iterable<OpenUpload>;
}

export interface OpenUploadsDeps {
  readonly content: ContentStore;
  readonly store: UploadStore;
  /** What the former server has kept. */
  readonly kept: readonly UploadRow[];
}

// Each upload has a file open. A client pushes only some blobs at a time.
const mostOfOwner = 500;
export const mostOpen = 2000;
// Each makes an object in a bucket, and costs its removal.
const mostKeeps = 10_000;

export function createOpenUploads({ content, store, kept }: OpenUploadsDeps): OpenUploads {
  const uploads = new Map<string, OpenUpload>();
  const openOf = new Map<string, number>();
  const keeps = new WeakMap<OpenUpload, number>();
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
      sending: undefined,
      flush: async () => {},
    };
    uploads.set(added.id, added);
    return added;
  };

  const takeUp = ({ id, repository, owner, usedAt, draft, algorithm, size }: UploadRow): void => {
    const idleMs = Math.max(0, Date.now() - usedAt);
    countOpen(owner, 1);
    const upload = add({
      ...{ id, repository, owner },
      ingest: undefined,
      kept: { draft, algorithm, size },
      usedAt: performance.now() - idleMs,
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
    // A row that stays is without its bytes soon, and then removed as abandoned.
    if (upload.kept) await store.remove(upload.id).catch(() => {});
    if (upload.ingest) await upload.ingest.abort();
    else if (upload.kept) await content.drop(upload.kept);
  };

  return {
    end,
    has: upload => uploads.has(upload.id),
    values: () => uploads.values(),

    find(repository, id) {
      const upload = uploads.get(id);
      if (upload?.repository === repository) return upload;
      throw unknown();
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
      throw unknown();
    },

    async keep(upload) {
      const { id, repository, owner, ingest } = upload;
      const times = (keeps.get(upload) ?? 0) + 1;
      if (!ingest || times > mostKeeps) return;
      keeps.set(upload, times);
      upload.kept = await ingest.keep();
      await store.keep({ id, repository, owner, ...upload.kept, usedAt: Date.now() });
    },
  };
}

function unknown(): Fault {
  return new Fault(
    'upload-unknown',
    'The upload does not exist or has ended: start the push of this blob again',
    { phase: 'push' },
  );
}

function tooMany(): Fault {
  return new Fault(
    'too-many-requests',
    'Too many uploads are open: finish or cancel some of them (DELETE), or try again later',
    { phase: 'push', retryAfterSeconds: 30 },
  );
}
