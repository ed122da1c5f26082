/** Progress as text: recorded values, compared with the output of buildctl. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { StatusResponseSchema } from '../../src/buildkit/gen/moby/buildkit/v1/status_pb.js';
import { directoryTree, PlainLog, type Progress, type Vertex } from '../../src/buildkit/index.ts';
import { Journal, progressDecoder } from '../../src/buildkit/progress/progress.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { buildkitDirectory, requireCommand } from '../world/tools.ts';
import { startBuildWorld } from './build-world.ts';

// Some moment, in ms since the epoch.
const at = 1_763_724_000_000;

function progress(part: Partial<Progress>): Progress {
  return { vertices: [], logs: [], statuses: [], warnings: [], ...part };
}

function step(name: string, startedMs?: number, completedMs?: number, more = {}): Progress {
  const vertex: Vertex = {
    ...{ digest: `sha256:${name}`, name, inputs: [], cached: false, error: undefined },
    startedMs: startedMs === undefined ? undefined : at + startedMs,
    completedMs: completedMs === undefined ? undefined : at + completedMs,
    ...{ group: undefined, ...more },
  };
  return progress({ vertices: [vertex] });
}

function written(
  name: string,
  timeMs: number,
  text: string,
  stream: 'stdout' | 'stderr' = 'stdout',
) {
  return progress({ logs: [{ vertex: `sha256:${name}`, stream, timeMs: at + timeMs, text }] });
}

/** Returns the text of all messages, each at its time in ms. */
function textOf(...events: [ms: number, what: Progress][]): string {
  const log = new PlainLog();
  let text = '';
  for (const [ms, what] of events) {
    log.update(what);
    text += log.take(at + ms);
  }
  return text + log.end(at + (events.at(-1)?.[0] ?? 0));
}

suite('recorded progress', () => {
  test('steps are printed in their order, with their output', () => {
    const text = textOf(
      [0, step('[internal] load', 0)],
      [50, step('[internal] load', 0, 40)],
      [60, step('[2/2] RUN')],
      [100, step('[2/2] RUN', 100)],
      [200, written('[2/2] RUN', 223, 'one\ntw')],
      [300, written('[2/2] RUN', 323, 'o\n')],
      [400, written('[2/2] RUN', 15_300, 'late\r\nlast')],
      [500, step('[2/2] RUN', 100, 16_000)],
      [600, step('[1/2] FROM', 600, 600, { cached: true })],
    );
    assert.equal(
      text,
      [
        ...['#1 [internal] load', '#1 DONE 0.0s', ''],
        ...['#2 [2/2] RUN', '#2 0.123 one', '#2 0.123 two', '#2 15.20 late', '#2 15.20 last'],
        ...['#2 DONE 15.9s', '', '#3 [1/2] FROM', '#3 CACHED', ''],
      ].join('\n'),
    );
  });

  test('one step is printed for a while, then another one that waits', () => {
    const text = textOf(
      [0, step('a', 0)],
      [100, step('b', 100)],
      [200, written('b', 200, 'b speaks\n')],
      [300, written('a', 300, 'a speaks\n')],
      [5_200, written('a', 5_200, 'a again\n')],
      [5_300, step('a', 0, 5_300)],
      [5_400, step('b', 100, 5_400)],
    );
    assert.equal(
      text,
      [
        ...['#1 a', '#1 0.300 a speaks', '#1 5.200 a again', '#1 ...', ''],
        ...['#2 b', '#2 0.100 b speaks', '#2 ...', '', '#1 a', '#1 DONE 5.3s', ''],
        ...['#2 b', '#2 DONE 5.3s', ''],
      ].join('\n'),
    );
  });

  test('a failed step, and a step that is cancelled because of it', () => {
    const text = textOf(
      [0, step('a', 0)],
      [10, written('a', 10, 'out\n')],
      [11, written('a', 11, 'err\n', 'stderr')],
      [20, step('a', 0, 20, { error: 'exit code: 1' })],
      [30, step('b', 0, 30, { error: 'context canceled' })],
    );
    assert.equal(
      text,
      [
        ...['#1 a', '#1 0.010 out', '#1 0.011 err', '#1 ERROR: exit code: 1', ''],
        ...['#2 b', '#2 CANCELED', '------', ' > a:', '0.010 out', '0.011 err', '------', ''],
      ].join('\n'),
    );
  });

  test('a step that restarts, and writes after its end', () => {
    const text = textOf(
      [0, step('a', 0, 100)],
      [200, step('a', 200)],
      [300, step('a', 200, 300)],
      [400, step('a')],
      [500, written('a', 310, 'late\n')],
    );
    assert.equal(
      text,
      [
        ...['#1 a', '#1 DONE 0.1s', '', '#1 a', '#1 DONE 0.2s', ''],
        ...['#1 a', '#1 0.110 late', '#1 DONE 0.2s', ''],
      ].join('\n'),
    );
  });

  test('a group is one step, and hidden while nothing in it matters', () => {
    const group = (weak: boolean) => ({ group: { id: 'g', name: 'all of it', weak } });
    const hidden = textOf([0, step('a', 0, 10, group(true))]);
    assert.equal(hidden, '');
    const shown = textOf(
      [0, step('a', 0, 10, { ...group(true), cached: true })],
      [20, step('b', 20, 40, group(false))],
    );
    assert.equal(shown, '#1 all of it\n#1 DONE 0.0s\n');
  });

  test('parts of a step are summarised, with amounts and times', () => {
    const part = (current: number, timeMs: number, completedMs?: number) =>
      progress({
        statuses: [
          {
            ...{ id: 'sha256:layer', vertex: 'sha256:a', name: '', current, total: 2_000_000 },
            ...{ timeMs: at + timeMs, startedMs: at },
            completedMs: completedMs === undefined ? undefined : at + completedMs,
          },
        ],
      });
    const text = textOf(
      [0, step('a', 0)],
      [10, part(0, 5)],
      [20, part(50_000, 20)],
      [30, part(500_000, 1_000)],
      [40, part(2_000_000, 2_000, 2_000)],
      [50, step('a', 0, 2_000)],
    );
    assert.equal(
      text,
      [
        ...['#1 a', '#1 sha256:layer 0B / 2.00MB'],
        ...['#1 sha256:layer 500.00kB / 2.00MB 1.0s', '#1 sha256:layer 2.00MB / 2.00MB 2.0s done'],
        ...['#1 DONE 2.0s', ''],
      ].join('\n'),
    );
  });

  test('characters that are split across messages', () => {
    const decode = progressDecoder();
    const journal = new Journal();
    const bytes = Buffer.from('größe 🙂\n');
    let text = '';
    for (const byte of bytes) {
      for (const stream of [1n, 2n]) {
        const log = { vertex: 'v', stream, msg: Buffer.from([byte]) };
        const decoded = decode(create(StatusResponseSchema, { logs: [log] }));
        journal.add(decoded);
        for (const piece of decoded.logs) if (piece.stream === 'stdout') text += piece.text;
      }
    }
    assert.equal(text, 'größe 🙂\n');
    assert.deepEqual(journal.lastLines('v'), ['größe 🙂', 'größe 🙂']);
  });

  test('the journal keeps the last lines, and shortens long ones', () => {
    const journal = new Journal();
    journal.add(written('a', 0, `${'x'.repeat(100_000)}\n`));
    for (let count = 0; count < 50; count += 1) journal.add(written('a', 0, `${count}\n`));
    assert.equal(journal.lastLines('sha256:a').length, 20);
    assert.equal(journal.lastLines('sha256:a').at(-1), '49');
    journal.add(written('a', 0, 'y'.repeat(100_000)));
    assert.equal(journal.lastLines('sha256:a').at(-1)?.length, 2_001);
  });

  test('the journal shows why a program failed, also if other output follows', () => {
    const journal = new Journal();
    journal.add(written('a', 0, 'early noise\n', 'stderr'));
    journal.add(written('a', 900, 'cannot find it\ngiving', 'stderr'));
    for (let count = 0; count < 30; count += 1) journal.add(written('a', 950, `${count}\n`));
    journal.add(written('a', 951, ' up', 'stderr'));
    const lines = journal.lastLines('sha256:a');
    assert.deepEqual(lines.slice(-3), ['29', 'cannot find it', 'giving up']);
    assert.equal(lines.length, 20);
    // Late output is placed by its time.
    const slow = new Journal();
    slow.add(written('a', 0, 'early noise\n', 'stderr'));
    slow.add(written('a', 900, 'last\n'));
    assert.deepEqual(slow.lastLines('sha256:a'), ['early noise', 'last']);
  });
});

test('buildctl prints the same', async () => {
  await using world = await startBuildWorld();
  await using directory = await makeTempDir('plain');
  const dockerfile = [
    `from ${world.base} AS one`,
    'COPY file /',
    'RUN echo hello; echo there >&2',
    `FROM ${world.base}`,
    'RUN printf "no end"',
    'COPY --from=one /file /copy',
    '',
  ].join('\n');
  await writeFile(directory.join('file'), 'content');
  await writeFile(directory.join('Dockerfile'), dockerfile);
  const buildctl = requireCommand(join(buildkitDirectory(), 'buildctl'));
  const common = ['build', '--frontend', 'dockerfile.v0', '--no-cache', '--progress', 'plain'];
  const locals = ['context', 'dockerfile'].flatMap(name => [
    '--local',
    `${name}=${directory.path}`,
  ]);
  const run = async () =>
    (await promisify(execFile)(buildctl, ['--addr', world.buildkitd.address, ...common, ...locals]))
      .stderr;
  // The first of them fetches the base.
  await run();
  let theirs = '';
  // On a busy machine, it may leave the warnings out.
  await eventually('buildctl prints the warnings', async () => {
    theirs = await run();
    return theirs.includes(' WARN: ');
  });
  const log: string[] = [];
  const context = directoryTree(directory.path);
  await world.build({ dockerfile, context, noCache: true }, { log });
  const lines = linesOf(theirs);
  assert.ok(lines.length >= 12, lines.join('\n'));
  assert.deepEqual(linesOf(log.join('')), lines);
});

/** Returns the reports about each step by its name, without times, sizes and pauses. */
function linesOf(text: string): string[] {
  const names = new Map<string, string>();
  const lines: string[] = [];
  for (const [, number = '', line = ''] of text.matchAll(/^(#\d+) (.*)$/gm)) {
    const name = names.get(number) ?? line;
    const isHeader = !names.has(number) || line === name || line === '...';
    names.set(number, name);
    const bare = line
      .replace(/ \d+\.\d+s/g, '')
      .replace(/\d+(\.\d+)?[kM]?B\b/g, 'N')
      .replace(/^\d+\.\d+ /, 'N ');
    if (!isHeader) lines.push(`${name}: ${bare}`);
  }
  const told = [...new Set(lines)];
  // A busy machine also reports parts in progress, and steps that turn out to be cached.
  const isOvertaken = (line: string): boolean =>
    told.some(other => other !== line && other.startsWith(line) && other.endsWith(' done')) ||
    (line.endsWith(': DONE') && told.includes(line.replace(/DONE$/, 'CACHED')));
  return told.filter(line => !isOvertaken(line)).sort();
}
