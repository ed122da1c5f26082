/** The display of a build's log on a terminal. */
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { PlainLog, type Vertex } from '../../src/buildkit/index.ts';
import { BuildSteps, type LogLine, parseLogLine } from '../../src/cli/progress/build-steps.ts';
import { frameOf, lastFrameOf, progressDisplay } from '../../src/cli/progress/display.ts';
import { withWaitingLine } from '../../src/cli/progress/waiting-line.ts';
import { processorMs } from '../world/processor-time.ts';

const lines: readonly [line: string, LogLine][] = [
  ['#5 [2/3] RUN make', { step: 5, kind: 'text', text: '[2/3] RUN make' }],
  ['#5 CACHED', { step: 5, kind: 'cached' }],
  ['#5 CANCELED', { step: 5, kind: 'cancelled' }],
  ['#5 ...', { step: 5, kind: 'paused' }],
  ['#12 DONE 1.2s', { step: 12, kind: 'done', seconds: 1.2 }],
  ['#5 ERROR: exit code: 1', { step: 5, kind: 'error', text: 'exit code: 1' }],
  ['#5 WARN: old', { step: 5, kind: 'warning', text: 'old' }],
  ['#5 0.123 hello  world', { step: 5, kind: 'output', seconds: 0.123, text: 'hello  world' }],
  ['#5 10.52 ', { step: 5, kind: 'output', seconds: 10.52, text: '' }],
  [
    '#5 sha256:ab 1.00MB / 2.00MB 0.1s',
    {
      ...{ step: 5, kind: 'progress', text: 'sha256:ab 1.00MB / 2.00MB 0.1s' },
      part: {
        ...{ id: 'sha256:ab', label: 'sha256:ab', amount: '1.00MB / 2.00MB' },
        ...{ bytes: 1_000_000, totalBytes: 2_000_000, seconds: 0.1, share: 0.5, isDone: false },
      },
    },
  ],
  [
    '#5 1 / 4 packages',
    {
      ...{ step: 5, kind: 'progress', text: '1 / 4 packages' },
      part: {
        ...{ id: 'packages', label: '1 / 4 packages', amount: '', bytes: 0, totalBytes: 0 },
        ...{ seconds: undefined, share: 0.25, isDone: false },
      },
    },
  ],
  ['#5 DONE soon', { step: 5, kind: 'text', text: 'DONE soon' }],
  ['#5', { step: undefined, text: '#5' }],
  ['# syntax', { step: undefined, text: '# syntax' }],
  ['', { step: undefined, text: '' }],
];

for (const [line, parsed] of lines) {
  test(`a log line: ${JSON.stringify(line)}`, () => assert.deepEqual(parseLogLine(line), parsed));
}

function read(text: string, nowMs = 0): BuildSteps {
  const build = new BuildSteps();
  for (const line of text.split('\n')) build.take(line, nowMs);
  return build;
}

const summaryOf = ({ steps }: BuildSteps) =>
  steps.map(({ number, name, state, seconds, lastLine }) =>
    [number, name, state, seconds, lastLine ?? '-'].join('|'),
  );

test('steps are recognised in the lines of the log, in any order', () => {
  const build = read(`#1 [internal] load
#1 transferring dockerfile: 31B done
#1 DONE 0.0s

#2 [1/3] FROM alpine
#2 CACHED

#3 [2/3] RUN make
#3 1.500 compiling
#3 ...

#4 [3/3] RUN test
#4 0.100 failing
#4 ERROR: exit code: 1

#3 [2/3] RUN make
#3 CANCELED
#9 WARN: of no step
#3 WARN: deprecated
------
 > [3/3] RUN test:
0.100 failing
------

The build failed: it did`);
  assert.deepEqual(summaryOf(build), [
    '1|[internal] load|done|0|transferring dockerfile: 31B done',
    '2|[1/3] FROM alpine|cached|0|-',
    '3|[2/3] RUN make|cancelled|1.5|compiling',
    '4|[3/3] RUN test|failed|0.1|failing',
  ]);
  assert.deepEqual(build.warnings, ['deprecated']);
  assert.equal(build.messages.at(-1), 'The build failed: it did');
});

test('a restarted build shows its steps again', () => {
  const build = read(
    '#1 load\n#1 DONE 0.1s\n#2 RUN a\n\nthe builder is away: trying again\n#1 load\n#1 DONE 0.3s',
  );
  assert.deepEqual(summaryOf(build), ['1|load|done|0.3|-']);
});

test('a step that runs again is shown as running', () => {
  const build = read('#1 load\n#1 DONE 0.1s\n#1 load\n');
  assert.deepEqual(summaryOf(build), ['1|load|running|0.1|-']);
});

test('messages in BuildKit’s own text are recognised', () => {
  const log = new PlainLog();
  const vertex = (digest: string, more: Partial<Vertex>): Vertex => ({
    ...{ digest, name: digest, inputs: [], cached: false, error: undefined, group: undefined },
    ...{ startedMs: 1000, completedMs: undefined },
    ...more,
  });
  const nothing = { logs: [], statuses: [], warnings: [] };
  log.update({
    ...nothing,
    vertices: [
      vertex('[1/2] FROM x', { completedMs: 1000, cached: true }),
      vertex('[2/2] RUN y', { startedMs: 2000 }),
    ],
    logs: [{ vertex: '[2/2] RUN y', stream: 'stdout', timeMs: 5250, text: 'one\ntwo\n' }],
  });
  const build = read(log.take(5250), 6000);
  assert.deepEqual(summaryOf(build), ['1|[1/2] FROM x|cached|0|-', '2|[2/2] RUN y|running|0|two']);
  assert.equal(build.steps[1]?.beganMs, 2750, 'as long as its output says');
});

const options = {
  ...{ nowMs: 5000, beganMs: 0, columns: 40, rows: 24 },
  style: (_: string, text: string) => text,
};

test('a frame has a heading, the steps, and the output of the running steps', () => {
  const build = read('#1 load\n#1 DONE 0.1s\n#2 FROM x\n#2 CACHED\n#3 RUN y\n#3 2.000 out\n', 2500);
  assert.deepEqual(frameOf(build, options), [
    '[+] Building 5.0s (2/3)',
    ' => load                           0.1s',
    ' => CACHED FROM x                  0.0s',
    ' => RUN y                          4.5s',
    ' => => out',
  ]);
});

test('a frame fits the terminal', () => {
  const name = `RUN ${'x'.repeat(100)}`;
  const many = Array.from(
    { length: 30 },
    (_, step) => `#${step + 1} s${step + 1}\n#${step + 1} DONE 0.0s`,
  );
  const build = read(`${many.join('\n')}\n#31 ${name}\n#31 1.0 ${'y'.repeat(100)}\u0007\tz`);
  const frame = frameOf(build, { ...options, rows: 6 });
  assert.equal(frame.length, 6);
  assert.ok(
    frame.every(line => line.length <= 40),
    frame.join('\n'),
  );
  assert.match(frame[1] ?? '', / s28 /);
  assert.match(frame[4] ?? '', /RUN xxx.*\.\.\. {1,}\d/);
  assert.match(frame[5] ?? '', /=> => yyy/);
  const bar = read('#1 RUN pip\n#1 1.0 10%\r50%\r90%\r');
  assert.match(frameOf(bar, options).at(-1) ?? '', /^ => => 90%$/);
});

test('downloads and layers have bars, until they are done', () => {
  const lines = [
    '#1 Fetch 3 packages',
    '#1 download zlib-1.3-0 500B / 500B 0.1s done',
    '#1 download bwa-0.7-0 3.00MB / 12.00MB 0.5s',
    '#1 layer samtools-1.20-0 4.00MB 0.5s',
    '#1 1 / 3 packages 3.00MB / 12.00MB',
    '#1 2 / 3 packages 6.00MB / 12.00MB',
  ];
  const wide = { ...options, columns: 80 };
  assert.deepEqual(frameOf(read(lines.join('\n'), 4000), wide), [
    '[+] Building 5.0s (0/1)',
    ' => Fetch 3 packages                                                       1.0s',
    ' => => download bwa-0.7-0    [======>                     ]    3.00MB / 12.00MB',
    ' => => layer samtools-1.20-0                                             4.00MB',
    ' => => 2 / 3 packages        [==================>         ]    6.00MB / 12.00MB',
  ]);
  for (const columns of [20, 40, 60, 300]) {
    const frame = frameOf(read(lines.join('\n')), { ...options, columns });
    assert.ok(
      frame.slice(1).every(line => line.length < columns),
      frame.join('\n'),
    );
  }
  const done = frameOf(read([...lines, '#1 DONE 1.0s'].join('\n')), options);
  assert.equal(done.length, 2);
  const many = Array.from({ length: 5000 }, (_, at) => `#1 download p${at} 1B / 2B`);
  assert.equal(frameOf(read(['#1 Fetch', ...many].join('\n')), options).length, 12);
});

test('text that is made to look like progress takes no time', () => {
  const ms = processorMs(() => {
    for (const text of ['9'.repeat(100_000), ' '.repeat(100_000), '1 / '.repeat(30_000)]) {
      assert.equal(parseLogLine(`#1 x ${text}B`).step, 1);
    }
  });
  assert.ok(ms < 1000, `${ms} ms`);
});

test('before the first step, the state of the server is shown', () => {
  assert.match(frameOf(read(''), options)[1] ?? '', /waiting in the queue/);
  assert.match(
    frameOf(read('Waiting for BuildKit\n'), options)[1] ?? '',
    /=> Waiting for BuildKit/,
  );
});

test('the last frame summarises the build', () => {
  const build = read(
    '#1 load\n#1 DONE 0.1s\n#2 FROM x\n#2 CACHED\n#2 WARN: old\n#3 RUN y\n#3 ERROR: no',
  );
  assert.deepEqual(lastFrameOf(build, false, options), [
    '[+] Failed after 5.0s: 3 steps, 1 of them cached',
    ' => load                           0.1s',
    ' => CACHED FROM x                  0.0s',
    ' => ERROR RUN y                    0.0s',
    'Warning: old',
  ]);
  assert.match(lastFrameOf(build, true, options)[0] ?? '', /^\[\+\] Built in 5\.0s: 3 steps/);
  const [byServer] = lastFrameOf(build, true, options, 61.25);
  assert.match(byServer ?? '', /^\[\+\] Built in 61\.3s: /, 'a build that was over has its time');
});

test('a line says what becomes of a layer, although its digest is long', () => {
  const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
  const build = read(`#1 Push the image\n#1 0.010 ${digest} (1.7 kB): mounted`);
  const last = frameOf(build, { ...options, columns: 80 }).at(-1);
  assert.equal(last, ' => => sha256:0123456789ab... (1.7 kB): mounted');
});

test('a terminal shows what a command waits for, and nothing of it stays', async () => {
  const shownOf = async (isTTY: boolean) => {
    const sink = Object.assign(new PassThrough(), { isTTY });
    const { promise, resolve } = Promise.withResolvers<void>();
    if (isTTY) sink.once('readable', resolve);
    else resolve();
    const work = () => promise.then(() => 7);
    assert.equal(await withWaitingLine(sink as unknown as NodeJS.WriteStream, 'Solving', work), 7);
    return String(sink.read() ?? '');
  };
  assert.equal(await shownOf(true), '\r\x1b[KSolving ... 0 s\r\x1b[K');
  assert.equal(await shownOf(false), '');
});

test('the reason of a failure is wrapped at the width of the terminal, not cut', () => {
  const sink = Object.assign(new PassThrough(), { isTTY: true, columns: 40, rows: 20 });
  const display = progressDisplay(sink as unknown as NodeJS.WriteStream, false);
  const reason = `The build failed: ${'why '.repeat(30)}end`;
  display.write(Buffer.from(`${reason}\n`));
  display.end({ succeeded: false });
  const shown = String(sink.read());
  const [before = ''] = shown.split(reason);
  assert.ok(before.length < shown.length, shown);
  assert.ok(before.lastIndexOf('\x1b[?7h') > before.lastIndexOf('\x1b[?7l'), 'lines are wrapped');
});
