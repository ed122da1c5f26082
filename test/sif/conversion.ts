import { open } from 'node:fs/promises';
import {
  type ConvertedSif,
  type ConvertOptions,
  convertToSif,
  type SifSource,
} from '../../src/images/sif/convert.ts';
import { readSif, type SifDescription } from '../../src/images/sif/format/read-sif.ts';
import { imageDefinition } from '../../src/images/sif/runtime/definition-runtime.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import type { ByteSource } from '../../src/storage/content/byte-source.ts';
import { type Content, describe } from '../corpus/content.ts';
import { created } from '../corpus/image.ts';
import type { Layer } from '../corpus/layer.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { squashedTree, type Tree } from './squashed-tree.ts';

export const noLimits = {
  maxEntries: 10_000_000,
  maxUnpackedBytes: 1e12,
  maxScratchBytes: 1e12,
};

/** An image of these layers as a conversion takes it. */
export function sourceOf(layers: readonly Layer[], more: Partial<SifSource> = {}): SifSource {
  const contents = new Map(layers.map(({ content }) => [content.digest, content]));
  return {
    layers: layers.map(({ content }) => describe(content) as Descriptor),
    config: { created, architecture: 'amd64', os: 'linux', config: { Cmd: ['/bin/sh'] } },
    architecture: 'amd64',
    async openLayer({ digest }) {
      const content = contents.get(digest);
      if (!content) throw new Error(`no ${digest}`);
      return sourceOfBytes(content);
    },
    ...more,
  };
}

/** The bytes in pieces of odd sizes. */
function sourceOfBytes(content: Content): ByteSource {
  const chunks = pieces(content.read());
  let failure: Error | undefined;
  return {
    async read() {
      if (failure) throw failure;
      const { value } = chunks.next();
      return value ? { bytes: value, release() {} } : null;
    },
    destroy(reason = new Error('closed')) {
      failure ??= reason;
    },
  };
}

function* pieces(parts: Iterable<Uint8Array>): Generator<Uint8Array> {
  for (const part of parts) {
    for (let at = 0; at < part.length; at += 99_991) yield part.subarray(at, at + 99_991);
  }
}

/** One conversion and the directory it has to itself. */
export interface Conversion extends AsyncDisposable {
  readonly directory: TempDir;
  readonly lines: string[];
  readonly sif: ConvertedSif;
  describe(): Promise<SifDescription>;
  /** @param unsquashfs the program that reads it. Default: the usual one. */
  tree(unsquashfs?: string): Promise<Tree>;
}

export function optionsFor(directory: string, lines: string[] = []): ConvertOptions {
  return {
    directory,
    definition: imageDefinition('registry.test/image:1'),
    limits: noLimits,
    log: line => lines.push(line),
    signal: new AbortController().signal,
  };
}

/** Converts an image; the directory goes when the conversion is disposed of. */
export async function convert(
  source: SifSource | readonly Layer[],
  more: Partial<ConvertOptions> = {},
): Promise<Conversion> {
  const directory = await makeTempDir('sif');
  const lines: string[] = [];
  try {
    const options = { ...optionsFor(directory.path, lines), ...more };
    const sif = await convertToSif('layers' in source ? source : sourceOf(source), options);
    const description = () => describeFile(sif.path);
    return {
      ...{ directory, lines, sif, describe: description },
      async tree(unsquashfs) {
        const { squashfs } = await description();
        if (!squashfs) throw new Error('it has no file system');
        return squashedTree(sif.path, squashfs.offset, unsquashfs);
      },
      [Symbol.asyncDispose]: directory.remove,
    };
  } catch (error) {
    await directory.remove();
    throw error;
  }
}

/** What is in a SIF file. */
export async function describeFile(path: string): Promise<SifDescription> {
  await using file = await open(path, 'r');
  return await readSif(async (offset, length) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
    return buffer.subarray(0, bytesRead);
  });
}
