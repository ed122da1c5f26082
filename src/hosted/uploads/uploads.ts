import { Fault, type FaultKind } from '../../foundation/fault.ts';
import { type Digest, type DigestAlgorithm, splitDigest } from '../../oci/digest.ts';
import type { Ingest } from '../../storage/content/index.ts';
import type { HostedBlobs } from '../blobs.ts';
import {
  type ChunkRange,
  createBatches,
  createOpenUploads,
  type OpenUpload,
  type OpenUploadsDeps,
  type Upload,
  type UploadBody,
} from './open-uploads.ts';
import type { Quota } from './quota.ts';

/** All methods except `start` throw a {@link Fault} (404) for an upload that has ended or never existed. */
export interface Uploads {
  /** Throws a {@link Fault} (429) when the owner, or all owners together, have too many open uploads. */
  start(repository: string, owner: string, algorithm?: DigestAlgorithm): Promise<Upload>;
  find(repository: string, id: string): Upload;
  /** Returns the state of an upload, including the bytes received so far from a request that is still sending. */
  state(repository: string, id: string): Promise<Upload>;
  /**
   * Appends a chunk; rejects one that does not begin at the end of the last one (416).
   *
   * @param range what the client says about the chunk. Such a client expects to continue after any failure: all bytes so
   * far survive the end of the server from then on. Others send the whole blob at once.
   */
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

export interface UploadsDeps extends OpenUploadsDeps {
  readonly blobs: HostedBlobs;
  readonly quota: Quota;
}

export function createUploads({ blobs, quota, ...deps }: UploadsDeps): Uploads {
  const uploads = createOpenUploads(deps);
  const { find, end } = uploads;

  /** Other clients begin a new upload: this one must not count as open until it expires. */
  const endSoon = (upload: OpenUpload): void => {
    const run = () => void end(upload).catch(() => {});
    upload.ending = setTimeout(run, repeatedWithinMs).unref();
  };

  /** Runs a request of an upload, after it has ended an older request that is still running. */
  const exclusively = async <T>(
    repository: string,
    id: string,
    body: UploadBody,
    work: (upload: OpenUpload, ingest: Ingest) => Promise<T>,
  ): Promise<T> => {
    const upload = find(repository, id);
    // A client sends one request at a time: an older one belongs to a dead connection.
    while (upload.sending) await stopped(upload.sending, 'A newer request continues this upload');
    find(repository, id);
    const running = uploads.ingestOf(upload).then(ingest => work(upload, ingest));
    const done = running.catch(() => {});
    upload.sending = { body, done };
    try {
      return await running;
    } finally {
      upload.sending = undefined;
      upload.usedAt = performance.now();
    }
  };

  /** After an error here, only what is kept can be continued. A broken connection loses nothing. */
  const write = async (upload: OpenUpload, ingest: Ingest, batch: Uint8Array[]): Promise<void> => {
    try {
      await ingest.write(...batch);
    } catch (error) {
      await uploads.goBack(upload);
      throw error;
    }
  };

  const receive = async (
    upload: OpenUpload,
    ingest: Ingest,
    body: UploadBody,
    range: ChunkRange | undefined,
  ) => {
    const { repository, reservation } = upload;
    checkRange(range, body.length, ingest.size);
    const batches = createBatches(bytes => write(upload, ingest, bytes));
    upload.flush = batches.flush;
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
      if (uploads.has(upload)) reservation.set(ingest.size);
      if (isRefusal(error)) await end(upload);
      throw error;
    }
    await batches.flush();
  };

  /** Ends an upload that has all its bytes, and now gets a request for other ones. */
  const requireUnfinished = async (upload: OpenUpload): Promise<void> => {
    const { whole, size } = upload;
    if (whole === undefined) return;
    await end(upload);
    throw otherDigest(size, whole);
  };

  /** Receives the last bytes of an upload with this digest. */
  const complete = async (
    upload: OpenUpload,
    ingest: Ingest,
    body: UploadBody,
    range: ChunkRange | undefined,
    digest: Digest,
  ): Promise<void> => {
    await requireUnfinished(upload);
    const { algorithm } = splitDigest(digest);
    // Before the bytes, when they all come now: otherwise they would have to be read again.
    if (ingest.size === 0) await ingest.hashWith(algorithm);
    await receive(upload, ingest, body, range);
    try {
      await ingest.hashWith(algorithm);
      const found = ingest.digest();
      if (found !== digest) throw otherDigest(ingest.size, found, digest);
    } catch (error) {
      await end(upload);
      throw error;
    }
    upload.whole = digest;
  };

  return {
    start: uploads.start,
    find,

    async state(repository, id) {
      // The request that brought the bytes gets the error of a failed write.
      await find(repository, id)
        .flush()
        .catch(() => {});
      return find(repository, id);
    },

    append: (repository, id, body, range) =>
      exclusively(repository, id, body, async (upload, ingest) => {
        await requireUnfinished(upload);
        if (range) uploads.requireRoom(upload);
        await receive(upload, ingest, body, range);
        if (range) await uploads.keep(upload);
        return upload;
      }),

    finish: (repository, id, body, range, digest) =>
      exclusively(repository, id, body, async (upload, ingest) => {
        clearTimeout(upload.ending);
        if (upload.whole !== digest) await complete(upload, ingest, body, range, digest);
        else {
          await skip(body, ingest.size).catch(error => {
            endSoon(upload);
            throw error;
          });
        }
        try {
          await ingest.commit();
          // From here on it counts as a part of the repository.
          upload.reservation.set(0);
          await blobs.link(repository, digest, ingest.size);
        } catch (error) {
          // Clients repeat the request after 503.
          if (error instanceof Fault && error.kind === 'unavailable') endSoon(upload);
          else await end(upload);
          throw error;
        }
        await end(upload);
      }),

    async cancel(repository, id) {
      const upload = find(repository, id);
      // Another request may wait for the one that is sending. Nothing else runs between the last look and the end.
      while (upload.sending) await stopped(upload.sending, 'The upload was cancelled');
      await end(upload);
    },

    async expire(idleMs) {
      const since = performance.now() - idleMs;
      const old = [...uploads.values()].filter(({ sending, usedAt }) => !sending && usedAt < since);
      const ends = await Promise.allSettled(old.map(end));
      const failed = ends.find(({ status }) => status === 'rejected');
      if (failed?.status === 'rejected') throw failed.reason;
    },
  };
}

/** Stops a request that is sending; resolves when it has ended. */
function stopped({ body, done }: NonNullable<OpenUpload['sending']>, why: string) {
  body.stop(new Fault('in-use', `${why}: this request has ended`, { phase: 'push' }));
  return done;
}

/** What ends a request, and leaves its upload for the next one. */
const passing: readonly FaultKind[] = ['unavailable', 'storage-full', 'in-use', 'too-slow'];

/** True when no repetition of the upload helps. */
function isRefusal(error: unknown): boolean {
  return error instanceof Fault && !passing.includes(error.kind);
}

/** Reads bytes that are here already: many clients read no response before they have sent their request. */
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
