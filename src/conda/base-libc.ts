import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { type TarEntry, TarError, TarReader, type TarVisitor } from '../archives/index.ts';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import { unlessAborted } from '../foundation/work.ts';
import type { LayerSource } from '../images/sif/index.ts';
import { compressionIn, decompressing } from '../images/sif/layers/index.ts';
import { splitDigest } from '../oci/digest.ts';
import type { Descriptor } from '../oci/index.ts';
import { namedArchitectures } from '../oci/naming.ts';
import { type ByteSource, copiesOf, drain } from '../storage/content/byte-source.ts';
import { createFlowHash } from '../storage/hashing/index.ts';

/** An image to build on, for one platform. */
export interface Base extends Pick<LayerSource, 'layers' | 'openLayer'> {
  /** Digest of its manifest. */
  readonly digest: string;
  /** Its name in messages. */
  readonly name: string;
}

/** The glibc of a base image, and whether it has an environment of its own. */
export interface FoundGlibc {
  readonly version: string;
  /** True when the image has none that can be found, and a usual version is assumed. */
  readonly isAssumed: boolean;
  /** True for an image with an environment of conda at `/opt/conda`. */
  readonly hasEnvironment: boolean;
}

export interface BaseLibc {
  /**
   * Returns the version of the GNU C library in a base image. Reads each image once: what it found holds for every registry that
   * has the image, so only layers with the right digest count. Throws a `Fault`: 400 for an image with musl, 502 for other content,
   * and those of the layers.
   */
  glibcOf(base: Base, signal: AbortSignal): Promise<FoundGlibc>;
}

/** What pixi assumes of a Linux system. Source: pixi, System requirements. */
export const usualGlibc = '2.28';

// Compressed bytes of layers that are read for one image. A layer of a distribution has about 30 MB.
const maxBytes = 512 * 1024 * 1024;
const maxUnpackedBytes = 4 * 1024 * 1024 * 1024;
const imagesKept = 2000;
const timeoutMs = 5 * 60_000;

type Finding = (Libc | { readonly kind: 'none' }) & Pick<FoundGlibc, 'hasEnvironment'>;

/** @param path file where findings are kept */
export function createBaseLibc(path: string): BaseLibc {
  const found = boundedCache<string, Finding>(imagesKept);
  const searches = new SingleFlight<Finding>();
  const ready = loadFound(path, found);
  let saving = Promise.resolve();

  const find = async (base: Base): Promise<Finding> => {
    await ready;
    const known = found.get(base.digest);
    if (known) return known;
    const finding = await searchLayers(base, AbortSignal.timeout(timeoutMs));
    found.set(base.digest, finding);
    // Without the file the next server reads the image again.
    saving = saving.then(() => saveFound(path, [...found.entries()])).catch(() => {});
    await saving;
    return finding;
  };

  return {
    async glibcOf(base, signal) {
      // A registry that fails or is slow does so for its own callers only.
      const key = `${base.name}@${base.digest}`;
      // It goes on when they leave: the next caller needs it too.
      const finding = await unlessAborted(
        searches.run(() => find(base), { key }),
        signal,
      );
      const { hasEnvironment } = finding;
      if (finding.kind === 'glibc') {
        return { version: finding.version, isAssumed: false, hasEnvironment };
      }
      if (finding.kind === 'none') return { version: usualGlibc, isAssumed: true, hasEnvironment };
      throw new Fault(
        'bad-request',
        `The base image ${base.name} has musl as its C library, and conda packages require glibc: choose a base image such as debian or ubuntu`,
        { phase: 'build' },
      );
    },
  };
}

/**
 * Reads layers from the top: an upper one may have replaced the library of a lower one. An environment may be in any of
 * them.
 */
async function searchLayers({ layers, openLayer }: Base, signal: AbortSignal): Promise<Finding> {
  let left = maxBytes;
  let glibc: Libc | undefined;
  let hasMusl = false;
  let hasEnvironment = false;
  for (const layer of layers.toReversed()) {
    if (layer.size > left) continue;
    left -= layer.size;
    const found = await searchVerified(layer, openLayer, signal);
    glibc ??= found.found;
    hasMusl ||= found.hasMusl;
    hasEnvironment ||= found.hasEnvironment;
    if (glibc && hasEnvironment) break;
  }
  return { ...(glibc ?? { kind: hasMusl ? 'musl' : 'none' }), hasEnvironment };
}

/** Throws a {@link Fault} for a layer with another digest: nobody may learn from it what the image with the right one has. */
async function searchVerified(
  layer: Descriptor,
  openLayer: Base['openLayer'],
  signal: AbortSignal,
): Promise<LibcSearch> {
  const { algorithm, hex } = splitDigest(layer.digest);
  const hash = createFlowHash(algorithm, layer.size);
  const source = await openLayer(layer, signal);
  let reading: Promise<unknown> = Promise.resolve();
  const hashed: ByteSource = {
    // The search may stop while it reads.
    read() {
      const next = reading.then(async () => {
        const chunk = await source.read();
        if (chunk) await hash.update(chunk.bytes);
        return chunk;
      });
      reading = next.catch(() => {});
      return next;
    },
    destroy() {},
  };
  try {
    const found = await searchLayer(hashed, signal);
    await drain(hashed, () => {});
    if ((await hash.digest()) === hex) return found;
  } finally {
    hash.abort();
    source.destroy();
  }
  throw new Fault(
    'upstream',
    `The registry returned content with the wrong digest for the layer ${layer.digest}: push the image again, or try again later`,
    { phase: 'upstream' },
  );
}

async function searchLayer(source: ByteSource, signal: AbortSignal): Promise<LibcSearch> {
  const visitor = new LibcSearch();
  const reader = new TarReader(visitor);
  let size = 0;
  try {
    for await (const piece of layerBytes(source)) {
      signal.throwIfAborted();
      size += piece.length;
      reader.write(piece);
      if (size > maxUnpackedBytes) return visitor;
    }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    // A layer that is not a tar file has no library. The client that pulls the image reports what is wrong with it.
    if (!(error instanceof TarError) && !/^(?:Z_|ZSTD_)/.test(code)) throw error;
  }
  return visitor;
}

async function loadFound(path: string, found: { set(key: string, value: Finding): unknown }) {
  const text = await readFile(path, 'utf8').catch(() => '[]');
  for (const [digest, finding] of parseFound(text)) found.set(digest, finding);
}

function parseFound(text: string): readonly (readonly [string, Finding])[] {
  try {
    const all = JSON.parse(text) as [string, Finding][];
    // An older version did not look for environments.
    return all.filter(([, { hasEnvironment }]) => hasEnvironment !== undefined);
  } catch {
    return [];
  }
}

async function saveFound(path: string, findings: readonly (readonly [string, Finding])[]) {
  const draft = `${path}.${randomUUID()}`;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  try {
    await writeFile(draft, JSON.stringify(findings), { mode: 0o600, flush: true });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Yields the bytes of a layer's tar file as they arrive. Detects the compression from the first bytes. */
async function* layerBytes(source: ByteSource): AsyncGenerator<Buffer> {
  const packed = copiesOf(source);
  try {
    const { value: first } = await packed.next();
    if (first === undefined) return;
    const all = Readable.from(joined(first, packed), { objectMode: false });
    const stream = decompressing(all, compressionIn(first));
    try {
      yield* stream as AsyncIterable<Buffer>;
    } finally {
      stream.destroy();
      all.destroy();
    }
  } finally {
    source.destroy();
  }
}

async function* joined(first: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

/** The C library of an image. */
type Libc =
  | { readonly kind: 'glibc'; readonly version: string }
  /** musl: packages of conda do not run with it. */
  | { readonly kind: 'musl' };

// The places where the loader of a 64-bit system looks. Other architectures and toolchains have folders of the second kind.
const libraryPath = /^(?:\.?\/)?(?:usr\/)?lib(?:64)?\/(?:([a-z0-9_]+)-linux-gnu\/)?([^/]+)$/;
const machines = new Set(namedArchitectures.map(([, { uname }]) => uname));
const versionedFile = /^libc-(\d+\.\d+)\.so$/;
/** The records of the packages of an environment at the path where images of packages have theirs. */
const environmentRecord = /^(?:\.?\/)?opt\/conda\/conda-meta\//;
const muslLoader = /^ld-musl-[a-z0-9_]+\.so\.1$/;
// The library says its version when it is run. Source: glibc, csu/version.c.
const banner = /GNU C Library \([^)\0]{0,100}\)[^\0]{0,40} version (\d+\.\d+)/;
const bannerBytes = 300;
const maxLibraryBytes = 64 * 1024 * 1024;

/** Finds the C library among the files of a layer, and an environment of conda. */
class LibcSearch implements TarVisitor {
  #found: Libc | undefined;
  #hasMusl = false;
  #hasEnvironment = false;
  #tail = '';

  /** The GNU C library, once it was found. */
  get found(): Libc | undefined {
    return this.#found;
  }

  /** True when there is a loader of musl: it counts where there is no glibc in any layer. */
  get hasMusl(): boolean {
    return this.#hasMusl;
  }

  /** True when there is an environment at `/opt/conda`. */
  get hasEnvironment(): boolean {
    return this.#hasEnvironment;
  }

  entry({ path, kind, link, size }: TarEntry): boolean {
    if (environmentRecord.test(path)) this.#hasEnvironment = true;
    const [, machine, name] = libraryPath.exec(path) ?? [];
    if (name === undefined || this.#found) return false;
    if (machine !== undefined && !machines.has(machine)) return false;
    if (muslLoader.test(name)) this.#hasMusl = true;
    const isLink = kind === 'symlink' || kind === 'link';
    const library = kind === 'file' ? name : isLink ? link.slice(link.lastIndexOf('/') + 1) : '';
    const isLibc = name === 'libc.so.6' || versionedFile.test(name);
    const version = isLibc ? versionedFile.exec(library)?.[1] : undefined;
    if (version !== undefined) this.#found = { kind: 'glibc', version };
    this.#tail = '';
    return (
      this.#found === undefined &&
      name === 'libc.so.6' &&
      kind === 'file' &&
      size <= maxLibraryBytes
    );
  }

  content(bytes: Buffer): void {
    if (this.#found) return;
    const text = this.#tail + bytes.toString('latin1');
    const version = banner.exec(text)?.[1];
    if (version !== undefined) this.#found = { kind: 'glibc', version };
    this.#tail = text.slice(-bannerBytes);
  }
}
