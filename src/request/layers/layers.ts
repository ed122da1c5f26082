import { createHash } from 'node:crypto';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { inTurns } from '../../foundation/work.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import type { Digest } from '../../oci/digest.ts';
import { namedArchitectures } from '../../oci/naming.ts';
import { type ByteSource, drain, sourceOfBytes } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type {
  AnonymousShare,
  CachedBlobStore,
  FetchedLayerStore,
} from '../../storage/rows/index.ts';
import type { Caller, SubmittedLayer } from '../container-request.ts';
import { createUnpackTurns, digestTar, type UnpackLimits } from './layer-check.ts';
import {
  failedFetch,
  malformed,
  notAsNamed,
  notSent,
  removedMeanwhile,
  type SizeLimit,
  tooLarge,
  tooLate,
} from './layer-faults.ts';
import { createLayerFetches } from './layer-fetches.ts';
import type { LayerSource } from './layer-source.ts';
import { createWhiteoutCheck } from './no-whiteouts.ts';

export interface LayerLimits {
  /** Maximum number of layers in one request. */
  readonly maxCount: number;
  /** Maximum bytes of a gzip file in the request itself. */
  readonly maxInlineBytes: number;
  /** Maximum bytes of a gzip file behind a URL. */
  readonly maxUrlBytes: number;
  /** Maximum unpacked bytes of all layers of one request. */
  readonly maxTarBytes: number;
  /** Timeout for fetching a URL (ms). */
  readonly fetchTimeout: number;
}

export interface LayerDeps {
  readonly content: ContentStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly fetched: FetchedLayerStore;
  readonly source: LayerSource;
  readonly limits: LayerLimits;
  /** Limits the content of callers without a login. */
  readonly share: Pick<AnonymousShare, 'take'>;
}

export interface LayerIntake {
  /**
   * Verifies the layers and takes them into the content store. Fetches URLs with the rights of the caller. Throws
   * {@link Fault}: 400 names the value that differs; 429 and 507 when the caller has reached its limit.
   */
  take(layers: readonly SubmittedLayer[], caller: LayerCaller): Promise<InjectedLayer[]>;
  /** Takes in layers of included images, which their registries have shown to the caller. */
  takeIncluded(layers: readonly IncludedLayer[], caller: LayerCaller): Promise<InjectedLayer[]>;
  /** Takes in a build context, which arrives in the form of a layer. */
  takeContext(context: SubmittedLayer, caller: LayerCaller): Promise<InjectedLayer>;
}

/** The caller: its rights are used for URLs, and its share for content. */
export interface LayerCaller extends Pick<Caller, 'grant' | 'network' | 'user'> {
  /** Aborted when the caller disconnects: a fetch without waiting callers ends. */
  readonly signal?: AbortSignal | undefined;
}

/** A layer of an included image, as its image describes it. */
export interface IncludedLayer {
  /** In messages. */
  readonly name: string;
  readonly layer: InjectedLayer;
  /** Repository and digest: the repository has sent these bytes if the place is among the fetched layers. */
  readonly place: string;
  /** The place, and the credentials for it: callers with the same text have the same right to the layer. */
  readonly right: string;
  /** Throws a {@link Fault} unless the registry shows the blob to the caller now. */
  readonly show: (signal: AbortSignal | undefined) => Promise<void>;
  readonly open: (signal: AbortSignal) => Promise<ByteSource>;
}

/** The layers of one request. */
interface Intake extends LayerCaller {
  /** The network whose share the content counts towards. */
  readonly payer: string | undefined;
  readonly unpacked: UnpackLimits['room'];
  readonly inspect?: UnpackLimits['inspect'];
  /** When set, a layer that differs is refused before anything of it is kept. */
  readonly expected?: Measured;
}

/** The measured digests and size of a layer. */
type Measured = Pick<InjectedLayer, 'gzipDigest' | 'gzipSize' | 'tarDigest'>;

/** What is noted of a layer of an included image: bytes that its repository has sent. */
interface IncludedNote extends Measured {
  /** Bytes of the tar file. */
  readonly tarSize: number;
}

const maxUrlLength = 8192;
// A slower server occupies a connection and its memory for too little data.
const minBytesPerSecond = 16 * 1024;
const patienceMs = 60_000;
// One request leaves turns to others of the same caller.
const includedAtOnce = 4;

export function createLayerIntake({
  content,
  cachedBlobs,
  fetched,
  source,
  limits,
  share,
}: LayerDeps): LayerIntake {
  const inlineLimit: SizeLimit = {
    bytes: limits.maxInlineBytes,
    advice:
      'inside a request: send its URL instead, or ask the operator to raise layers.maxInlineBytes',
  };
  const urlLimit: SizeLimit = {
    bytes: limits.maxUrlBytes,
    advice: 'for a download: split it, or ask the operator to raise layers.maxUrlBytes',
  };
  const tarLimit: SizeLimit = {
    bytes: limits.maxTarBytes,
    advice:
      "for all layers of a request: include fewer images, name one 'containerPlatform', or ask the operator to raise layers.maxTarBytes",
  };
  const known = boundedCache<Digest, Measured>(10_000);
  const takeTurn = createUnpackTurns();
  const fetches = createLayerFetches<Measured | IncludedNote>({ timeoutMs: limits.fetchTimeout });

  const ingest = async (
    source: ByteSource,
    name: string,
    limit: SizeLimit,
    caller: Intake,
  ): Promise<Measured> => {
    using room = await takeRoom(source, caller.payer);
    const file = await content.ingest();
    const tar = digestTar(name, {
      room: caller.unpacked,
      inspect: caller.inspect,
      takeTurn: () => takeTurn(caller, caller.signal),
    });
    try {
      await drain(source, async bytes => {
        if (file.size + bytes.length > limit.bytes) throw tooLarge(name, limit);
        const { gzipSize = Number.POSITIVE_INFINITY } = caller.expected ?? {};
        if (file.size + bytes.length > gzipSize) throw notAsNamed(name);
        await room.grow(bytes.length);
        const writes = [file.write(bytes), tar.write(bytes)];
        // When one write has failed, the other one may still read the buffer.
        await Promise.all(writes).finally(() => Promise.allSettled(writes));
      });
      const tarDigest = await tar.end();
      const gzipSize = file.size;
      const found = { gzipDigest: file.digest(), gzipSize, tarDigest };
      if (caller.expected && !isSame(found, caller.expected)) throw notAsNamed(name);
      // A copy in the cache becomes content that the request keeps.
      const isNew =
        caller.payer !== undefined &&
        ((await cachedBlobs.isMereCopy(file.digest())) ||
          (await content.size(file.digest())) === undefined);
      // Before the commit, so that the cache does not remove it immediately.
      await cachedBlobs.adopt(file.digest());
      const gzipDigest = await file.commit();
      // The cache removes content that was unused since its last check, and a commit alone does not count as a use.
      if (!(await content.claim(gzipDigest))) throw removedMeanwhile(name);
      if (isNew) await room.keep(gzipDigest);
      const measured = { gzipDigest, gzipSize, tarDigest };
      known.set(gzipDigest, measured);
      return measured;
    } catch (error) {
      source.destroy();
      tar.abort();
      await file.abort();
      throw error;
    }
  };

  /**
   * Counts content that a request comes to need as used; false when it is not here. A mere copy of an upstream blob counts
   * towards the share of the caller from then on. Adopted first: the cache can remove a copy right after a claim.
   */
  const claimed = async (digest: Digest, payer: string | undefined): Promise<boolean> => {
    const isCounted = payer !== undefined && (await cachedBlobs.isMereCopy(digest));
    const size = isCounted ? await content.size(digest) : undefined;
    using room = await share.take(size === undefined ? undefined : payer, size);
    await cachedBlobs.adopt(digest);
    if (!(await content.claim(digest))) return false;
    if (size !== undefined) await room.keep(digest);
    return true;
  };

  const takeRoom = async (source: ByteSource, network: string | undefined) => {
    try {
      return await share.take(network);
    } catch (error) {
      source.destroy();
      throw error;
    }
  };

  const takeInline = async (base64: string, name: string, caller: Intake): Promise<Measured> => {
    const size = Math.floor((base64.length * 3) / 4);
    if (size > inlineLimit.bytes + 2) throw tooLarge(name, inlineLimit);
    const bytes = Buffer.from(base64, 'base64');
    // Strict base64 is unchanged after decoding and encoding.
    if (bytes.toString('base64') !== base64) {
      throw malformed(
        `${name}.location is not base64 after 'data:': encode the tar.gz file (RFC 4648, no line breaks)`,
      );
    }
    const hash = createHash('sha256');
    await drain(sourceOfBytes(bytes), piece => hash.update(piece));
    const digest = `sha256:${hash.digest('hex')}` as Digest;
    const measured = known.get(digest);
    const isHere = await claimed(digest, caller.payer);
    if (measured && isHere) return measured;
    // Content that is kept already needs no more space, but must be measured again after a restart.
    const payer = isHere ? undefined : caller.network;
    return ingest(sourceOfBytes(bytes), name, inlineLimit, { ...caller, payer });
  };

  const fetchLayer = async (
    url: URL,
    name: string,
    caller: Intake,
    signal: AbortSignal,
  ): Promise<Measured> => {
    try {
      const { body, contentLength = 0 } = await source.open(url, caller.grant, signal);
      signal.addEventListener('abort', () => body.destroy(signal.reason), { once: true });
      if (contentLength > urlLimit.bytes) {
        body.destroy();
        throw tooLarge(name, urlLimit);
      }
      const flowing = requireFlow(body, url.host);
      const measured = await ingest(flowing, name, urlLimit, { ...caller, signal });
      fetched.put(url.href, JSON.stringify(measured), Date.now());
      return measured;
    } catch (error) {
      throw failedFetch(signal.aborted ? signal.reason : error, url, name);
    }
  };

  const takeUrl = async (
    layer: SubmittedLayer,
    name: string,
    caller: Intake,
  ): Promise<Measured> => {
    if (layer.location.length > maxUrlLength) {
      throw malformed(
        `${name}.location is longer than ${maxUrlLength} characters: put the file at a shorter address`,
      );
    }
    if (!URL.canParse(layer.location)) {
      throw malformed(
        `${name}.location is not a URL: write http(s)://HOST/PATH, and unusual characters as %XX`,
      );
    }
    const url = new URL(layer.location);
    await source.admit(url, caller.grant, caller.signal).catch(error => {
      throw failedFetch(error, url, name);
    });
    const text = await fetched.find(url.href, Date.now());
    const before = text === undefined ? undefined : (JSON.parse(text) as Measured);
    // Content from an earlier fetch is used only for the digest that the client expects now: the address may have other
    // content by now.
    const isExpected = before !== undefined && before.gzipDigest === layer.gzipDigest;
    if (isExpected && (await claimed(before.gzipDigest, caller.payer))) return before;
    // The space, turns and other layers of one caller must neither fail nor delay the fetch of another one.
    const key = JSON.stringify([caller.user, caller.network, url.href]);
    return fetches(key, caller, signal => fetchLayer(url, name, caller, signal));
  };

  const takeOne = async (
    layer: SubmittedLayer,
    name: string,
    caller: Intake,
  ): Promise<InjectedLayer> => {
    const inline = /^data:(?:[^,;]{0,100};base64,)?/.exec(layer.location);
    const isUrl = /^https?:/i.test(layer.location);
    if (!inline && !isUrl) {
      throw malformed(
        `${name}.location must be an http(s) URL, or 'data:' followed by the base64 of a tar.gz file: the server cannot read files of your machine ('sluice request --layer FILE' sends them)`,
      );
    }
    const measured = inline
      ? await takeInline(layer.location.slice(inline[0].length), name, caller)
      : await takeUrl(layer, name, caller);
    compare(name, layer, measured);
    const architecture = isUrl ? architectureIn(layer.location) : undefined;
    return { ...measured, ...(architecture === undefined ? {} : { architecture }) };
  };

  /** Any registry may name any digest: only the bytes prove that it has the blob, and what is in it. */
  const takeIncluded = async (included: IncludedLayer, caller: Intake): Promise<void> => {
    const { name, layer, place, right, show, open } = included;
    const { gzipDigest, gzipSize, tarDigest } = layer;
    if (gzipSize > urlLimit.bytes) throw tooLarge(name, urlLimit);
    const text = await fetched.find(place, Date.now());
    const before = text === undefined ? undefined : (JSON.parse(text) as IncludedNote);
    if (before) {
      await show(caller.signal).catch(error => {
        throw caller.signal?.aborted ? error : notSent(error, name);
      });
      if (!isSame(before, layer)) throw notAsNamed(name);
      if (await claimed(gzipDigest, caller.payer)) return count(before, name, caller);
    }
    let isOwn = false;
    // Another image may describe the same layer in another way, and is refused for it.
    const key = JSON.stringify([caller.user, caller.network, right, gzipSize, tarDigest]);
    const note = await fetches(key, caller, async signal => {
      isOwn = true;
      let tarSize = 0;
      const refuseWhiteouts = createWhiteoutCheck(name);
      const inspect = (bytes: Buffer) => {
        tarSize += bytes.length;
        refuseWhiteouts(bytes);
      };
      try {
        const body = await open(signal);
        signal.addEventListener('abort', () => body.destroy(signal.reason), { once: true });
        const expected = { gzipDigest, gzipSize, tarDigest };
        const intake = { ...caller, signal, inspect, expected };
        const flowing = requireFlow(body, place.slice(0, place.indexOf('/')));
        const measured = await ingest(flowing, name, urlLimit, intake);
        const note: IncludedNote = { ...measured, tarSize };
        fetched.put(place, JSON.stringify(note), Date.now());
        return note;
      } catch (error) {
        throw notSent(signal.aborted ? signal.reason : error, name);
      }
    });
    // The request that began the fetch has counted the bytes while they were unpacked.
    if (!isOwn) count(note as IncludedNote, name, caller);
  };

  /** Counts a layer that this request did not unpack. */
  const count = ({ tarSize }: IncludedNote, name: string, { unpacked }: Intake): void => {
    unpacked.left -= tarSize;
    if (unpacked.left < 0) throw tooLarge(name, tarLimit);
  };

  const intakeOf = (caller: LayerCaller): Intake => ({
    ...caller,
    payer: caller.network,
    unpacked: { left: limits.maxTarBytes, limit: limits.maxTarBytes },
  });

  return {
    async take(layers, caller) {
      if (layers.length > limits.maxCount) {
        throw malformed(
          `containerConfig.layers has ${layers.length} layers, at most ${limits.maxCount} are allowed: pack several into one, or ask the operator to raise layers.maxCount`,
        );
      }
      const intake = intakeOf(caller);
      return Promise.all(
        layers.map((layer, position) =>
          takeOne(layer, `containerConfig.layers[${position}]`, intake),
        ),
      );
    },

    async takeIncluded(layers, caller) {
      const keyOf = ({ place, layer }: IncludedLayer) =>
        `${place} ${layer.gzipSize} ${layer.tarDigest}`;
      const each = [...new Map(layers.map(one => [keyOf(one), one])).values()];
      const bytes = each.reduce((sum, { layer }) => sum + layer.gzipSize, 0);
      if (bytes > limits.maxTarBytes) throw tooLarge("'containerIncludes'", tarLimit);
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(tooLate(limits.fetchTimeout)), limits.fetchTimeout);
      const signal = AbortSignal.any([late.signal, ...(caller.signal ? [caller.signal] : [])]);
      const intake = { ...intakeOf(caller), signal };
      try {
        await inTurns(includedAtOnce, each, one => takeIncluded(one, intake));
      } finally {
        clearTimeout(timer);
        // Ends the others when one has failed.
        late.abort();
      }
      return layers.map(({ layer }) => layer);
    },

    takeContext: (context, caller) => takeOne(context, 'buildContext', intakeOf(caller)),
  };
}

/** Returns the source. It ends when it is too slow for too long; only the time spent waiting for it counts. */
function requireFlow(source: ByteSource, host: string): ByteSource {
  let waitedMs = 0;
  let size = 0;
  return {
    async read() {
      const began = performance.now();
      const chunk = await source.read();
      waitedMs += performance.now() - began;
      size += chunk?.bytes.length ?? 0;
      if (!chunk || waitedMs < patienceMs || size >= (waitedMs / 1000) * minBytesPerSecond) {
        return chunk;
      }
      source.destroy();
      throw new Fault(
        'bad-request',
        `${host} sends less than ${minBytesPerSecond} bytes per second: try again, or name a faster host`,
        { phase: 'upstream' },
      );
    },
    destroy: reason => source.destroy(reason),
  };
}

/** Returns the architecture at the end of a file name. It marks a layer for images of that architecture only. */
export function architectureIn(location: string): string | undefined {
  const { pathname } = new URL(location);
  const file = /^(.*)\.(?:tar\.gz|tgz)$/.exec(pathname)?.[1] ?? '';
  const isLast = (name: string) => ['-', '_', '.'].some(before => file.endsWith(before + name));
  return namedArchitectures.find(([name, { uname }]) => isLast(name) || isLast(uname))?.[0];
}

function compare(name: string, claimed: SubmittedLayer, measured: Measured): void {
  for (const field of ['gzipDigest', 'gzipSize', 'tarDigest'] as const) {
    const claim = claimed[field];
    if (claim !== undefined && claim !== measured[field]) {
      throw malformed(
        `${name}.${field} is ${claim}, but the layer has ${measured[field]}: if the layer is the right one, send that value or leave the field out`,
      );
    }
  }
}

function isSame(one: Measured, other: Measured): boolean {
  return (
    one.gzipDigest === other.gzipDigest &&
    one.gzipSize === other.gzipSize &&
    one.tarDigest === other.tarDigest
  );
}
