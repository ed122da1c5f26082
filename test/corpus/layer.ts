import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { type Content, contentOf, mediaTypes, sha256 } from './content.ts';

/** A layer as it lies in a registry, and the digest of its tar. */
export interface Layer {
  readonly content: Content;
  readonly diffId: string;
}

/** One entry of a layer: a text or bytes make a file, `link` or `hardLink` a link, else a directory. */
export interface Entry {
  readonly name: string;
  readonly content?: string | Uint8Array;
  readonly link?: string;
  /** Name of an earlier file. */
  readonly hardLink?: string;
  /** Seconds since the epoch. Default: 0. */
  readonly mtime?: number;
  readonly mode?: number;
  readonly uid?: number;
}

export type Compression = 'gzip' | 'zstd' | 'none';

type PartialHeader = Partial<Header> & Pick<Header, 'name'>;

const nothing = Buffer.alloc(0);
const suffix: Readonly<Record<Compression, string>> = { gzip: '+gzip', zstd: '+zstd', none: '' };

/** A layer in OCI spelling; the same entries always give the same bytes. */
export async function layerOf(
  entries: readonly Entry[],
  compression: Compression = 'gzip',
): Promise<Layer> {
  const tar = await tarOf(entries);
  const mediaType = `${mediaTypes.ociLayer}${suffix[compression]}`;
  return { content: contentOf(mediaType, compress(tar, compression)), diffId: sha256(tar) };
}

/** The same layer under another media type. */
export function retyped({ content, diffId }: Layer, mediaType: string): Layer {
  return { content: { ...content, mediaType }, diffId };
}

function compress(tar: Buffer, compression: Compression): Buffer {
  if (compression === 'gzip') return gzipSync(tar);
  return compression === 'zstd' ? zstdCompressSync(tar) : tar;
}

/** The tar of the entries. */
export async function tarOf(entries: readonly Entry[]): Promise<Buffer> {
  const tar = pack();
  for (const entry of entries) {
    const [header, body] = headerAndBody(entry);
    tar.entry(header, body);
  }
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

function headerAndBody(entry: Entry): [PartialHeader, Buffer] {
  const { name, content, link, hardLink, mode, mtime = 0, uid = 0 } = entry;
  const common = { name, mtime: new Date(mtime * 1000), uid, gid: uid };
  if (hardLink !== undefined) {
    const bits = mode === undefined ? {} : { mode };
    return [{ ...common, ...bits, type: 'link', linkname: hardLink }, nothing];
  }
  if (link !== undefined) return [{ ...common, type: 'symlink', linkname: link }, nothing];
  if (content === undefined)
    return [{ ...common, type: 'directory', mode: mode ?? 0o755 }, nothing];
  const body = Buffer.from(content);
  return [{ ...common, type: 'file', mode: mode ?? 0o644, size: body.length }, body];
}
