import { createHash } from 'node:crypto';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { drain } from '../../storage/content/byte-source.ts';
import type { ContentStore, ScratchFile } from '../../storage/content/index.ts';
import { type PlacedSource, resumingSource, type UpstreamResponse } from '../../upstream/index.ts';
import { WireError } from '../../upstream/transport/index.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import type { CondaPackage } from '../conda-package.ts';

/** An archive on this machine. Its digest is the one that the channel or the lock file promises. */
export interface FetchedArchive extends AsyncDisposable {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** In hex. */
  readonly sha256: string;
}

/** What is fetched: a package of any kind, and where it is published. */
export type WantedArchive = Pick<CondaPackage, 'fileName' | 'url' | 'size' | 'sha256' | 'md5'>;

/** Fetches the archive of a package. Throws a {@link Fault} that names the package and its channel. */
export type FetchArchive = (
  wanted: WantedArchive,
  signal: AbortSignal,
  onReceived?: OnReceived,
) => Promise<FetchedArchive>;

/** Called with the bytes of an archive that have arrived, and all its bytes; undefined where the channel does not say it. */
export type OnReceived = (received: number, size: number | undefined) => void;

export interface ArchiveFetchDeps {
  readonly channels: Pick<ChannelAccess, 'open'>;
  readonly content: Pick<ContentStore, 'scratch'>;
  readonly limits: FetchLimits;
}

export interface FetchLimits {
  /** Bytes of an archive. */
  readonly maxArchiveBytes: number;
  /** Time for one archive (ms). */
  readonly fetchTimeout: number;
  /** Longest wait for the next 64 KiB (ms). Default: one minute. */
  readonly stallMs?: number | undefined;
}

const usualStallMs = 60_000;

export function createArchiveFetch({ channels, content, limits }: ArchiveFetchDeps): FetchArchive {
  const fetchInTime = async (
    wanted: WantedArchive,
    signal: AbortSignal,
    onReceived: OnReceived,
  ): Promise<FetchedArchive> => {
    const response = await channels.open(wanted.url, { signal });
    const { contentLength: size } = response;
    let file: ScratchFile | undefined;
    const leave = () => response.body.destroy(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    try {
      checkLength(wanted, response.contentLength, limits.maxArchiveBytes);
      file = await content.scratch(size ?? wanted.size);
      const source =
        size === undefined
          ? response.body
          : whole(channels, wanted, response, size, limits, signal);
      const sums = { sha256: createHash('sha256'), md5: createHash('md5') };
      let received = 0;
      const scratch = file;
      await drain(source, async bytes => {
        signal.throwIfAborted();
        received += bytes.length;
        if (received > limits.maxArchiveBytes) throw tooLarge(wanted, limits.maxArchiveBytes);
        // The write runs on another thread while this one hashes.
        const written = scratch.write(bytes);
        sums.sha256.update(bytes);
        if (wanted.sha256 === undefined) sums.md5.update(bytes);
        await written;
        onReceived(received, size);
      });
      const sha256 = sums.sha256.digest('hex');
      checkDigest(wanted, received, sha256, sums.md5.digest('hex'));
      return {
        path: scratch.path,
        size: received,
        sha256,
        [Symbol.asyncDispose]: () => scratch[Symbol.asyncDispose](),
      };
    } catch (error) {
      response.body.destroy();
      await file?.[Symbol.asyncDispose]();
      throw error;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  };

  return async (wanted, signal, onReceived = () => {}) => {
    const stop = new AbortController();
    const leave = () => stop.abort(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    const timer = setTimeout(
      () => stop.abort(tooSlow(wanted, limits.fetchTimeout)),
      limits.fetchTimeout,
    );
    try {
      signal.throwIfAborted();
      return await fetchInTime(wanted, stop.signal, onReceived);
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : failedFetch(wanted, error);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
    }
  };
}

/** Returns the whole archive: the rest is requested when the channel breaks off. */
function whole(
  channels: Pick<ChannelAccess, 'open'>,
  { url }: WantedArchive,
  first: UpstreamResponse,
  size: number,
  { stallMs = usualStallMs }: FetchLimits,
  signal: AbortSignal,
) {
  const validator = first.headers.get('etag') ?? first.headers.get('last-modified');
  // Without a strong validator, the digest shows whether the rest belongs to the beginning.
  const condition =
    validator === undefined || validator.startsWith('W/') ? {} : { 'if-range': validator };
  const reopen = async (position: number): Promise<PlacedSource> => {
    const headers = position === 0 ? {} : { range: `bytes=${position}-`, ...condition };
    const { status, headers: got, body } = await channels.open(url, { headers, signal });
    const start = /^bytes (\d+)-/.exec(got.get('content-range') ?? '')?.[1];
    return { source: body, offset: status === 206 && start !== undefined ? Number(start) : 0 };
  };
  return resumingSource({
    first: { source: first.body, offset: 0 },
    start: 0,
    end: size - 1,
    reopen,
    stallMs,
  });
}

function checkLength(wanted: WantedArchive, length: number | undefined, most: number): void {
  if (Math.max(length ?? 0, wanted.size ?? 0) > most) throw tooLarge(wanted, most);
  if (length === undefined || wanted.size === undefined || length === wanted.size) return;
  throw wrongArchive(wanted, `${length} bytes instead of ${wanted.size}`);
}

function checkDigest(wanted: WantedArchive, size: number, sha256: string, md5: string): void {
  if (wanted.size !== undefined && size !== wanted.size) {
    throw wrongArchive(wanted, `${size} bytes instead of ${wanted.size}`);
  }
  if (wanted.sha256 !== undefined) {
    if (wanted.sha256 !== sha256)
      throw wrongArchive(wanted, `the SHA-256 ${sha256} instead of ${wanted.sha256}`);
  } else if (wanted.md5 !== undefined && wanted.md5 !== md5) {
    throw wrongArchive(wanted, `the MD5 ${md5} instead of ${wanted.md5}`);
  }
}

function wrongArchive(wanted: WantedArchive, what: string): Fault {
  return new Fault(
    'bad-request',
    `${placeOf(wanted)} sent a wrong archive for ${wanted.fileName}: ${what}. Try again later, or report it to its owners`,
    { phase: 'layer' },
  );
}

function tooLarge(wanted: WantedArchive, most: number): Fault {
  return new Fault(
    'too-large',
    `${wanted.fileName} is larger than the ${most} bytes that are allowed for a package: ask the operator to raise conda.packages.maxArchiveBytes`,
    { phase: 'layer' },
  );
}

function tooSlow(wanted: WantedArchive, timeoutMs: number): Fault {
  return new Fault(
    'bad-request',
    `${placeOf(wanted)} takes longer than ${Math.round(timeoutMs / 1000)} s to send ${wanted.fileName}: try again later, or ask the operator to raise conda.packages.fetchTimeout`,
    { phase: 'layer' },
  );
}

function failedFetch(wanted: WantedArchive, error: unknown): unknown {
  if (isDiskFull(error)) return error;
  if (error instanceof Fault && (error.phase === 'layer' || error.phase === 'store')) return error;
  const why = reasonOf(error);
  const kind = error instanceof Fault && error.kind === 'denied' ? 'denied' : 'bad-request';
  return new Fault(kind, `${wanted.fileName} could not be fetched from ${placeOf(wanted)}${why}`, {
    phase: 'layer',
    cause: error,
  });
}

function reasonOf(error: unknown): string {
  // Its message is about registries.
  if (error instanceof Fault && error.kind === 'upstream-timeout') return ': it sends too slowly';
  const isExplained = error instanceof Fault || error instanceof WireError;
  return isExplained ? `: ${error.message}` : ': the download broke off';
}

function placeOf({ url }: WantedArchive): string {
  return URL.canParse(url) ? new URL(url).host : 'the server';
}
