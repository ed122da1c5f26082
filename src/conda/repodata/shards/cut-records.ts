import { closeSync, openSync } from 'node:fs';
import { plainBase } from '../../channels/channel-address.ts';
import {
  JsonRecords,
  type RecordReceiver,
  type RecordSection,
  RepodataError,
} from './json-records.ts';
import { MsgpackWriter, type Packed } from './msgpack.ts';
import { RecordSpill, ShardPackWriter } from './shard-pack.ts';

/** What is cut, and where the result goes. */
export interface CutTarget {
  /** URL of the subdirectory, without a slash at the end. */
  readonly url: string;
  readonly subdir: string;
  /** Path of the new file of shards; a second file next to it is used meanwhile. */
  readonly path: string;
}

/** The folder below a subdirectory that its shards are served from to the solver; no channel is asked for it. */
export const shardFolder = 'shards';

// Digests that CEP 16 has as bytes.
const digests = ['sha256', 'md5', 'legacy_bz2_md5'] as const;
const maxRecords = 5_000_000;
// A record of a package is some hundred bytes.
const maxRecordBytes = 16 * 1024 * 1024;

/**
 * Cuts repository data into shards as it is read: one for each package name, with all its records.
 * Throws a {@link RepodataError} when the data is not what it should be.
 */
export async function cutRecords(
  pieces: AsyncIterable<Uint8Array>,
  { url, subdir, path }: CutTarget,
): Promise<void> {
  const file = openSync(`${path}.records`, 'wx+', 0o600);
  const pack = new ShardPackWriter(path);
  try {
    const spill = new RecordSpill(file);
    const entry = new MsgpackWriter();
    const removed = new Map<string, string[]>();
    let archives = `${url}/`;
    let count = 0;
    const counted = () => {
      count += 1;
      if (count > maxRecords) throw new RepodataError(`has more than ${maxRecords} packages`);
    };
    const receiver: RecordReceiver = {
      info(info) {
        archives = archivesOf(info, archives);
      },
      record(section, fileName, record) {
        counted();
        const { name } = checked(record, fileName);
        entry.clear();
        entry.value(fileName);
        try {
          entry.value(withDigests(record as Record<string, Packed>));
        } catch (cause) {
          throw new RepodataError(
            `has a record that is nested too deeply, of ${fileName.slice(0, 200)}`,
            { cause },
          );
        }
        spill.add(name, section, entry.written);
      },
      removed(fileName) {
        counted();
        const name = fileName.replace(/-[^-]*-[^-]*$/, '');
        const files = removed.get(name);
        if (files) files.push(fileName);
        else removed.set(name, [fileName]);
      },
    };
    const records = new JsonRecords(receiver, maxRecordBytes);
    for await (const piece of pieces) records.feed(piece);
    records.end();
    const shard = new MsgpackWriter();
    for (const name of spill.names) {
      shard.clear();
      shard.map(3);
      for (const section of ['packages', 'packages.conda'] satisfies RecordSection[]) {
        const { count, bytes } = spill.section(name, section);
        shard.value(section);
        shard.map(count);
        for (const run of bytes) shard.raw(run);
      }
      shard.value('removed');
      shard.value(removed.get(name) ?? []);
      pack.add(name, shard.written);
    }
    pack.end({ subdir, archives, shards: `${url}/${shardFolder}/` });
  } finally {
    pack.close();
    closeSync(file);
  }
}

function checked(record: unknown, fileName: string): { readonly name: string } {
  if (typeof record === 'object' && record !== null && 'name' in record) {
    const { name } = record;
    if (typeof name === 'string' && name !== '') return { name };
  }
  throw new RepodataError(`has no name for the package ${fileName.slice(0, 200)}`);
}

function withDigests(record: Record<string, Packed>): Record<string, Packed> {
  const packed = { ...record };
  for (const name of digests) {
    const value = packed[name];
    if (typeof value !== 'string') continue;
    if (/^[0-9a-fA-F]+$/.test(value) && value.length === (name === 'sha256' ? 64 : 32)) {
      packed[name] = Buffer.from(value, 'hex');
    } else {
      // An empty digest is as good as none.
      delete packed[name];
    }
  }
  return packed;
}

/** Source: CEP 15, `base_url` is where the archives are, absolute or below the subdirectory. */
function archivesOf(info: unknown, base: string): string {
  if (typeof info !== 'object' || info === null || !('base_url' in info)) return base;
  const { base_url: text } = info;
  if (typeof text !== 'string' || !URL.canParse(text, base)) return base;
  const url = new URL(text, base);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return base;
  // The addresses of packages go into lock files.
  return `${plainBase(url.href)}/`;
}
