import { createHash } from 'node:crypto';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
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
import type { SubmittedLayer } from '../container-request.ts';
import { createIncludedLayers, type IncludedLayer } from './included-layers.ts';
import { createUnpackTurns, digestTar } from './layer-check.ts';
import {
  failedFetch,
  malformed,
  notAsNamed,
  removedMeanwhile,
  type SizeLimit,
  tooLarge,
} from './layer-faults.ts';
import { createLayerFetches } from './layer-fetches.ts';
import type { LayerSource } from './layer-source.ts';
import {
  type Intake,
  isSame,
  type LayerCaller,
  type LayerLimits,
  type Measured,
} from './one-intake.ts';
import { requireFlow } from './required-flow.ts';

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
  /**
   * Takes in the layers of included images, which their registries have shown to the caller: a stack for each image and
   * platform, the lowest layer first.
   */
  takeIncluded(
    stacks: readonly (readonly IncludedLayer[])[],
    caller: LayerCaller,
  ): Promise<InjectedLayer[]>;
  /** Returns the layers that {@link takeIncluded} would, as far as they are known without fetching one. */
  expectIncluded(stacks: readonly (readonly IncludedLayer[])[]): Promise<InjectedLayer[]>;
  /** Takes in a build context, which arrives in the form of a layer. */
  takeContext(context: SubmittedLayer, caller: LayerCaller): Promise<InjectedLayer>;
}

const maxUrlLength = 8192;

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
  const known = boundedCache<Digest, Measured>(10_000);
  const takeTurn = createUnpackTurns();
  const fetches = createLayerFetches<Measured>({ timeoutMs: limits.fetchTimeout });

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
      packing: caller.packing,
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
      if (caller.packing === undefined) known.set(gzipDigest, measured);
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

  const included = createIncludedLayers({
    content,
    fetched,
    limits,
    claimed,
    ingest: (source, name, caller) => ingest(source, name, urlLimit, caller),
  });

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

    takeIncluded: (stacks, caller) => included.take(stacks, intakeOf(caller)),

    expectIncluded: included.expect,

    takeContext: (context, caller) => takeOne(context, 'buildContext', intakeOf(caller)),
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
