import type { InjectedLayer } from '../augment/image-change.ts';
import { boundedCache } from '../bounded-cache.ts';
import { type ByteSource, sourceOfBytes } from '../content/byte-source.ts';
import type { ContentStore } from '../content/content-store.ts';
import { Fault } from '../fault.ts';
import { type Digest, digestOf } from '../oci/digest.ts';
import type { CachedBlobStore } from '../store/cached-blobs.ts';
import type { FetchedLayerStore } from '../store/fetched-layers.ts';
import { WireError } from '../upstream/wire-error.ts';
import { digestTar } from './layer-check.ts';
import type { SubmittedLayer } from './submission.ts';

export interface LayerLimits {
  /** Layers in one request. */
  readonly maxCount: number;
  /** Bytes of a gzip file in the request itself. */
  readonly maxInlineBytes: number;
  /** Bytes of a gzip file behind a URL. */
  readonly maxUrlBytes: number;
  /** Bytes of the tar file inside. */
  readonly maxTarBytes: number;
}

export interface LayerDeps {
  readonly content: ContentStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly fetched: FetchedLayerStore;
  readonly openUrl: (url: URL) => Promise<{ body: ByteSource; contentLength: number | undefined }>;
  readonly limits: LayerLimits;
}

export interface LayerIntake {
  /** Takes the layers into the content store, verified. Throws {@link Fault}: 400 names the value that differs. */
  take(layers: readonly SubmittedLayer[]): Promise<InjectedLayer[]>;
  /** The same for a build context, which comes in the form of a layer. */
  takeContext(context: SubmittedLayer): Promise<InjectedLayer>;
}

/** What the bytes of a layer turned out to be. */
type Measured = Pick<InjectedLayer, 'gzipDigest' | 'gzipSize' | 'tarDigest'>;

const architectureNames: Readonly<Record<string, string>> = {
  amd64: 'amd64',
  x86_64: 'amd64',
  arm64: 'arm64',
  aarch64: 'arm64',
};

export function createLayerIntake({
  content,
  cachedBlobs,
  fetched,
  openUrl,
  limits,
}: LayerDeps): LayerIntake {
  const known = boundedCache<Digest, Measured>(10_000);
  const running = new Map<string, Promise<Measured>>();

  const ingest = async (source: ByteSource, name: string, limit: number): Promise<Measured> => {
    const file = await content.ingest();
    const tar = digestTar(name, limits.maxTarBytes);
    try {
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        if (file.size + chunk.bytes.length > limit) throw tooLarge(name, limit);
        await Promise.all([file.write(chunk.bytes), tar.write(chunk.bytes)]);
        chunk.release();
      }
      const tarDigest = await tar.end();
      const gzipSize = file.size;
      const gzipDigest = await file.commit();
      // It may have been a mere copy of an upstream blob until now, which a sweep could take.
      cachedBlobs.forget(gzipDigest);
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

  const takeInline = async (base64: string, name: string): Promise<Measured> => {
    if (!isBase64(base64)) throw malformed(`${name}.location is not base64 after 'data:'`);
    const size = Math.floor((base64.length * 3) / 4);
    if (size > limits.maxInlineBytes + 2) throw tooLarge(name, limits.maxInlineBytes);
    const bytes = Buffer.from(base64, 'base64');
    const digest = digestOf(bytes);
    const measured = known.get(digest);
    if (measured && content.claim(digest)) return measured;
    return ingest(sourceOfBytes(bytes), name, limits.maxInlineBytes);
  };

  const fetchLayer = async (url: URL, name: string): Promise<Measured> => {
    try {
      const { body, contentLength = 0 } = await openUrl(url);
      if (contentLength > limits.maxUrlBytes) {
        body.destroy();
        throw tooLarge(name, limits.maxUrlBytes);
      }
      const measured = await ingest(body, name, limits.maxUrlBytes);
      fetched.put(url.href, JSON.stringify(measured));
      return measured;
    } catch (error) {
      if (error instanceof Fault && error.phase === 'layer') throw error;
      const isTold = error instanceof Fault || error instanceof WireError;
      const why = isTold ? `: ${error.message}` : '';
      throw new Fault('bad-request', `${name} could not be fetched from ${url.host}${why}`, {
        phase: 'layer',
        cause: error,
      });
    }
  };

  const takeUrl = async (layer: SubmittedLayer, name: string): Promise<Measured> => {
    if (!URL.canParse(layer.location)) throw malformed(`${name}.location is not a URL`);
    const url = new URL(layer.location);
    const text = fetched.find(url.href);
    const before = text === undefined ? undefined : (JSON.parse(text) as Measured);
    // What was fetched before is taken again only for the digest that the client expects now: the
    // address may have other content by now.
    const isSame = before !== undefined && before.gzipDigest === layer.gzipDigest;
    if (isSame && content.claim(before.gzipDigest)) return before;
    let pending = running.get(url.href);
    if (!pending) {
      pending = fetchLayer(url, name).finally(() => running.delete(url.href));
      running.set(url.href, pending);
    }
    return pending;
  };

  const takeOne = async (layer: SubmittedLayer, name: string): Promise<InjectedLayer> => {
    const inline = /^data:(?:[^,;]*;base64,)?/.exec(layer.location);
    const isUrl = /^https?:/i.test(layer.location);
    if (!inline && !isUrl) {
      throw malformed(`${name}.location must be an http(s) URL, or 'data:' followed by base64`);
    }
    const measured = inline
      ? await takeInline(layer.location.slice(inline[0].length), name)
      : await takeUrl(layer, name);
    compare(name, layer, measured);
    const architecture = isUrl ? architectureIn(layer.location) : undefined;
    return { ...measured, ...(architecture === undefined ? {} : { architecture }) };
  };

  return {
    async take(layers) {
      if (layers.length > limits.maxCount) {
        throw malformed(
          `containerConfig.layers has ${layers.length} layers, at most ${limits.maxCount} are allowed: pack several into one`,
        );
      }
      return Promise.all(
        layers.map((layer, position) => takeOne(layer, `containerConfig.layers[${position}]`)),
      );
    },

    takeContext: context => takeOne(context, 'buildContext'),
  };
}

/** A file name that ends with an architecture marks a layer for images of that architecture only. */
export function architectureIn(location: string): string | undefined {
  const { pathname } = new URL(location);
  const name = /[-_.](amd64|x86_64|arm64|aarch64)\.(?:tar\.gz|tgz)$/.exec(pathname)?.[1];
  return name === undefined ? undefined : architectureNames[name];
}

function compare(name: string, claimed: SubmittedLayer, measured: Measured): void {
  for (const field of ['gzipDigest', 'gzipSize', 'tarDigest'] as const) {
    const claim = claimed[field];
    if (claim !== undefined && claim !== measured[field]) {
      throw malformed(`${name}.${field} is ${claim}, but the layer's is ${measured[field]}`);
    }
  }
}

/** Strict base64: what decodes to the same text when encoded again. */
function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

function malformed(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'layer' });
}

function tooLarge(name: string, limit: number): Fault {
  return new Fault('too-large', `${name} is larger than the ${limit} bytes allowed`, {
    phase: 'layer',
  });
}
