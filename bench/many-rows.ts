import { randomBytes } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { sweep } from '../src/server/upkeep/sweep/sweep.ts';
import { openDatabase } from '../src/storage/rows/database.ts';
import { openPostgresRows, openRows, type Rows } from '../src/storage/rows/rows.ts';
import { contentOfRows } from '../test/rows/growth-works.ts';
import { longestBlock } from '../test/world/longest-block.ts';
import { fillDatabase, moveToPostgres, type RowCounts } from '../test/world/many-rows.ts';
import { startPostgres } from '../test/world/postgres.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import type { Part, Row } from './report.ts';
import { median, ratio } from './stats.ts';

// SCALE=1 is ten million requests. It takes about an hour.
const scale = Number(process.env.SCALE ?? 0.05);
const fewer = 1000;
const attempts = 300;
const dayMs = 24 * 3_600_000;
const pageOfTags = 100;
const body = JSON.stringify({
  image: { registry: 'docker.io', repository: 'library/alpine' },
  change: { env: ['A=1'] },
});

const counts: RowCounts = {
  liveRequests: 10_000_000 * scale,
  endedRequests: 100_000 * scale,
  hostedBlobs: 1_000_000 * scale,
  contents: 20_000 * scale,
  tags: 100_000 * scale,
};
const few: RowCounts = {
  ...Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [name, Math.ceil(count / fewer)]),
  ),
  // Pages of the same length.
  tags: 2 * pageOfTags,
};

/** A filled database, and the hashes of some of its container tokens. */
interface Filled {
  readonly path: string;
  readonly tokens: readonly Buffer[];
}

/** The same rows in one of the databases: many, and a thousandth of them. */
interface Pair {
  readonly name: string;
  readonly open: (filled: Filled) => Promise<Rows>;
}

/** (n) What rows of many years cost, compared with a thousandth of them, in both databases. */
export async function manyRows(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using postgres = await startPostgres({ durable: true });
  const filled = {
    many: await fill(directory.join('many.db'), counts),
    few: await fill(directory.join('few.db'), few),
  };
  const addresses = new Map<string, string>();
  for (const { path } of [filled.many, filled.few]) {
    const url = await postgres.createDatabase();
    await copyFile(path, `${path}.moved`);
    await moveToPostgres(`${path}.moved`, url);
    addresses.set(path, url);
  }
  const pairs: Pair[] = [
    { name: 'SQLite', open: async ({ path }) => openRows(path, {}) },
    { name: 'PostgreSQL', open: ({ path }) => openPostgresRows(addresses.get(path) ?? '') },
  ];
  const rows: Row[] = [];
  for (const pair of pairs) rows.push(...(await measure(pair, filled.many, filled.few)));
  const sizes = [counts.liveRequests, counts.hostedBlobs, counts.tags].map(count =>
    (count ?? 0).toLocaleString('en'),
  );
  const title = `Many rows: ${sizes[0]} container requests, ${sizes[1]} blobs, ${sizes[2]} tags of one repository : a thousandth of them`;
  return [{ letter: 'n', title, rows }];
}

async function fill(path: string, wanted: RowCounts): Promise<Filled> {
  const database = openDatabase(path, {});
  fillDatabase(database, wanted);
  const first = wanted.endedRequests ?? 0;
  const step = Math.max(1, Math.floor((wanted.liveRequests ?? 0) / attempts));
  const tokens = database
    .prepare<[number, number], Buffer>(
      'SELECT token_hash FROM requests WHERE id > ? AND id % ? = 0 ORDER BY id',
    )
    .pluck()
    .all(first, step);
  await database.end();
  return { path, tokens };
}

async function measure({ name, open }: Pair, many: Filled, little: Filled): Promise<Row[]> {
  const opened = { many: await opening(open, many), few: await opening(open, little) };
  const sides = [
    { rows: opened.many.rows, tokens: many.tokens, tags: counts.tags ?? 0, ms: timesOf() },
    { rows: opened.few.rows, tokens: little.tokens, tags: few.tags ?? 0, ms: timesOf() },
  ] as const;
  const longest: string[] = [];
  const watch = async (what: string, work: () => Promise<unknown>): Promise<number> => {
    const began = performance.now();
    const { cpuMs } = await longestBlock(work);
    longest.push(`${what} ${cpuMs.toFixed(1)} ms`);
    return performance.now() - began;
  };
  await watch('requests', async () => {
    for (let at = 0; at < attempts; at += 1) {
      for (const { rows, tokens, tags, ms } of sides) {
        const token = tokens[(at * 7919) % tokens.length] ?? Buffer.alloc(32);
        ms.lookup.push(await timeOf(() => rows.requests.find(token)));
        ms.again.push(await timeOf(() => rows.requests.find(token)));
        const needs = Buffer.from(String(at % 300).padStart(16, '0'));
        const request = { createdAt: Date.now(), expiresAt: Date.now() + dayMs, body, needs };
        ms.request.push(await timeOf(() => rows.requests.insert(randomBytes(32), request)));
        const after = `t${String(Math.floor((tags * (at % 5)) / 10)).padStart(8, '0')}`;
        ms.tags.push(await timeOf(() => rows.hosted.tags('many/tags', after, pageOfTags)));
      }
    }
  });
  const compared = (what: string, of: keyof ReturnType<typeof timesOf>, aim = 'at most 2'): Row => {
    const [large, small] = [sides[0].ms[of], sides[1].ms[of]];
    const shown = (ms: readonly number[]) => `${median(ms).toFixed(2)} ms`;
    return {
      what: `${name}: ${what}`,
      figure: ratio(large, small).toFixed(2),
      aim,
      medians: `${shown(large)} : ${shown(small)}`,
    };
  };
  const sweptMs = await watch('sweep', () =>
    sweep(
      { ...sides[0].rows, content: contentOfRows(sides[0].rows.contentRows) },
      { graceMs: dayMs },
    ),
  );
  const purgedMs = await watch('removal', () => sides[0].rows.requests.purge(Date.now() - dayMs));
  const read = (counts.liveRequests ?? 0) + 2 * (counts.hostedBlobs ?? 0);
  const ended = counts.endedRequests ?? 0;
  await Promise.all([opened.many.rows.end(), opened.few.rows.end()]);
  const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  return [
    // What nobody has read for long is on the disk; a thousandth of the rows is in memory.
    compared('first lookup of a container token', 'lookup', 'a few pages from the disk'),
    compared('next lookup of it', 'again'),
    compared('new container request, on the disk', 'request'),
    compared(`page of ${pageOfTags} tags`, 'tags'),
    {
      what: `${name}: start`,
      figure: `${Math.round(opened.many.ms)} ms`,
      aim: 'that of few rows',
      medians: `${Math.round(opened.many.ms)} ms : ${Math.round(opened.few.ms)} ms`,
    },
    {
      what: `${name}: sweep of everything`,
      figure: inSeconds(sweptMs),
      aim: '',
      medians: `${Math.round(read / (sweptMs / 1000))} rows a second`,
    },
    {
      what: `${name}: removal of ${ended.toLocaleString('en')} ended requests`,
      figure: inSeconds(purgedMs),
      aim: '',
      medians: `${(purgedMs / ended).toFixed(2)} ms each`,
    },
    {
      what: `${name}: longest turn of the event loop, processor time`,
      figure: longest.join(', '),
      aim: 'under 50 ms',
      medians: '',
    },
  ];
}

const timesOf = () => ({
  lookup: [] as number[],
  again: [] as number[],
  request: [] as number[],
  tags: [] as number[],
});

async function opening(open: Pair['open'], filled: Filled): Promise<{ rows: Rows; ms: number }> {
  const began = performance.now();
  const rows = await open(filled);
  return { rows, ms: performance.now() - began };
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
