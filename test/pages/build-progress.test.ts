/** How far a running build is, from the lines of its log to the bars of its page, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepLines } from '../../src/builds/logs/log-lines.ts';
import { progressPart } from '../../src/pages/builds/build-progress.ts';
import type { BuildView } from '../../src/pages/builds/build-view.ts';
import type { ShownStep } from '../../src/pages/builds/recipe/shown-recipe.ts';
import { boundMs } from '../world/longest-block.ts';
import { processorMs } from '../world/processor-time.ts';

function readLog(text: string): StepLines {
  const lines = new StepLines();
  const bytes = Buffer.from(text);
  let line = 0;
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(10, start);
    lines.see(line, bytes, start, end < 0 ? bytes.length : end);
    line += 1;
    start = end < 0 ? bytes.length : end + 1;
  }
  return lines;
}

function shown(log: string, names: readonly string[], now = 65_000): string {
  const progress = new Map(readLog(log).steps.map(step => [step.number, step.progress]));
  const steps = names.map((name, at): ShownStep => {
    const times = { startedAt: 0, endedAt: undefined, spentMs: undefined, error: undefined };
    return { number: at + 1, name, state: 'running', ...times };
  });
  const view = { id: 'key_1', state: 'running', startedAt: 0, steps, progress };
  return progressPart(view as unknown as BuildView, now)?.toString() ?? '';
}

const textOf = (html: string) => html.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');

test('packages of Conda have a bar each: percent, bytes and elapsed time', () => {
  const log = [
    '#1 Fetch 3 packages',
    '#1 download samtools-1.20-h5_0 4.00MB / 16.00MB 2.0s',
    '#1 download bwa-0.7.18-0 1.00MB / 2.00MB 1.0s',
    '#1 1 / 3 packages 5.00MB / 18.00MB',
    '#1 download bwa-0.7.18-0 2.00MB / 2.00MB 1.5s done',
    '',
  ].join('\n');
  const html = shown(log, ['Fetch 3 packages']);
  const text = textOf(html);
  assert.match(text, /0 steps have ended, 1 runs, after 1 min 5 s\./);
  assert.match(text, /#1 Fetch 3 packages 33 % · 1 of 3 packages · 5\.0 MB of 18 MB · 1 min 5 s/);
  assert.match(text, /download samtools-1\.20-h5_0 25 % · 4\.0 MB of 16 MB · 2 s/);
  assert.doesNotMatch(text, /bwa/);
  const bars = [...html.matchAll(/<progress max="100" value="(\d+)" aria-label="([^"]*)">/g)];
  assert.deepEqual(
    bars.map(([, value, label]) => [value, label]),
    [
      ['33', 'Fetch 3 packages'],
      ['25', 'download samtools-1.20-h5_0'],
    ],
  );
});

test('a step of BuildKit sums up its layers; output of programs is not progress', () => {
  const log = [
    '#1 [1/2] FROM host/base',
    '#1 sha256:aa 3.00MB / 3.00MB 0.5s done',
    '#1 sha256:bb 1.00MB / 5.00MB 0.5s',
    '',
    '#2 [2/2] RUN make',
    '#2 0.100 fake 1.00MB / 2.00MB 1.0s',
    '',
  ].join('\n');
  const text = textOf(shown(log, ['[1/2] FROM host/base', '[2/2] RUN make']));
  assert.match(text, /FROM host\/base 50 % · 4\.0 MB of 8\.0 MB/);
  assert.match(text, /#2 \[2\/2\] RUN make 1 min 5 s/);
  assert.doesNotMatch(text, /fake/);
});

test('a step that has ended, and an attempt that begins again, have no progress', () => {
  const ended = readLog('#1 Fetch\n#1 download a 1.00MB / 2.00MB 1.0s\n#1 DONE 2.0s\n');
  assert.deepEqual(ended.steps[0]?.progress, {
    all: undefined,
    parts: [],
    hasMore: false,
    doneBytes: 0,
  });
  const again = 'The server was restarted. The build starts again.';
  const log = readLog(`#1 Fetch\n#1 download a 1.00MB / 2.00MB 1.0s\n${again}\n#1 Fetch\n`);
  assert.deepEqual(log.steps[0]?.progress.parts, []);
});

test('names are escaped, cut, and without characters that turn the text', () => {
  const name = `<script>alert(1)</script>"'\u202e${'x'.repeat(500)}`;
  const html = shown(`#1 Fetch\n#1 ${name.slice(0, 100)} 1.00MB / 2.00MB 1.0s\n`, [name]);
  assert.doesNotMatch(html, /<script|\u202e/);
  assert.match(html, /aria-label="&lt;script&gt;alert\(1\)&lt;\/script&gt;&quot;/);
  assert.doesNotMatch(html, /x{121}/);
});

test('10,000 steps and downloads show a few rows and the number of the others, at once', () => {
  const all = Array.from({ length: 10_000 }, (_, at) => at + 1);
  const log = all.map(at => `#1 download p${at} 1.00MB / 2.00MB 1.0s\n`).join('');
  const names = all.map(at => `step ${at}`);
  let html = '';
  const ms = processorMs(() => {
    html = shown(`#1 Fetch\n${log}${all.map(at => `#${at} s${at}\n`).join('')}`, names);
  });
  assert.match(html, /188 or more others are not shown\./);
  assert.match(html, /9,994 more steps run\./);
  assert.equal(html.match(/<progress/g)?.length, 13);
  assert.ok(html.length < 8000, `${html.length} characters`);
  assert.ok(ms < boundMs(250), `${ms} ms`);
});

test('a page changes with whole seconds only', () => {
  const at = (now: number) => shown('#1 RUN make\n', ['RUN make'], now);
  assert.equal(at(3200), at(3900));
  assert.match(textOf(at(3900)), /RUN make 3 s/);
});
