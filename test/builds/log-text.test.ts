/** The output of programs, as it is kept: colours stay, and nothing else that a terminal would obey. */
import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { test } from 'node:test';
import { maskAddresses, SecretMask } from '../../src/buildkit/index.ts';
import { createBuildLogs } from '../../src/builds/logs/build-logs.ts';
import { LogText } from '../../src/builds/logs/log-text.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const clean = (text: string) => new LogText().clean(text, maskAddresses);
const never = new AbortController().signal;

test('colours stay, in one form, and each line ends without them', async () => {
  const kept = [
    ['\u001b[31mred\u001b[0m plain', '\u001b[0;31mred\u001b[0m plain'],
    ['\u001b[1m\u001b[32mgood', '\u001b[0;1;32mgood\u001b[0m'],
    ['\u001b[38;5;208mo\u001b[39m', '\u001b[0;38;5;208mo\u001b[0m'],
    ['\u001b[38:2::255:0:9mo\u001b[m', '\u001b[0;38;2;255;0;9mo\u001b[0m'],
    ['\u001b[48;2;1;2;300mx\u001b[38;5mx\u001b[999mx', 'xxx'],
    ['\u001b[8mhidden\u001b[5m blinking', 'hidden blinking'],
    ['\u001b[31m\u001b[31m\u001b[31m', ''],
    ['\u009b33myellow', '\u001b[0;33myellow\u001b[0m'],
    [`\u001b[${'1;'.repeat(100)}31mx`, 'x'],
  ];
  for (const [given = '', expected] of kept) assert.equal(await clean(given), expected, given);
});

test('a colour of a step goes on in its next line, whatever other steps print in between', async () => {
  const text = new LogText();
  const lines = [
    '#5 0.1 \u001b[31mone',
    '#6 0.1 other',
    '#5 DONE 0.2s',
    '#5 0.2 two\u001b[0m',
    '#5 0.3 end',
  ];
  assert.equal(
    await text.clean(`${lines.join('\n')}\n`, maskAddresses),
    '#5 0.1 \u001b[0;31mone\u001b[0m\n#6 0.1 other\n#5 DONE 0.2s\n#5 0.2 \u001b[0;31mtwo\u001b[0m\n#5 0.3 end\n',
  );
  await text.clean('#5 0.4 \u001b[31mopen\n', maskAddresses);
  text.restart();
  assert.equal(await text.clean('#5 0.1 new\n', maskAddresses), '#5 0.1 new\n');
});

test('what a program writes over its own line is one line, with the last text', async () => {
  const kept = [
    ['#5 0.1 10%\r20%\r100%', '#5 0.1 100%'],
    ['#5 0.1 10%\r\u001b[K100%\r', '#5 0.1 100%'],
    ['#5 0.1 loading   \r          \rdone', '#5 0.1 done'],
    ['#5 0.1 loading\u001b[2K\u001b[1Gdone', '#5 0.1 done'],
    ['#5 0.1 |\b/\b-\b\\\bok', '#5 0.1 ok'],
    ['#5 0.1 12\u001b[2D34', '#5 0.1 34'],
    ['#5 0.1 one\u001b[1Atwo', '#5 0.1 two'],
    ['#5 0.1 service\u001b[60G[ ok ]', '#5 0.1 service [ ok ]'],
    ['\u001b[01;31m\u001b[Kmatch\u001b[m\u001b[K', '\u001b[0;1;31mmatch\u001b[0m'],
  ];
  for (const [given = '', expected] of kept) assert.equal(await clean(given), expected, given);
});

test('titles, links and other sequences of hostile programs are removed, and no text is lost', async () => {
  const kept = [
    ['a\u001b]0;title\u0007b', 'ab'],
    ['\u001b]8;;https://evil.test\u001b\\link\u001b]8;;\u001b\\', 'link'],
    ['a\u001bP1;2qsixel\u001b\\b\u001b_app\u009cc', 'abc'],
    ['a\u001b]0;never ends', 'a\ufffd0;never ends'],
    ['a\u001b[12', 'a\ufffd12'],
    ['\u001bc\u001b(B\u001b7\u001b[?25l\u001b[2J\u001b[>1;2mtext\u001b', 'text'],
    ['bell\u0007 nul\u0000 shift\u000e c1\u0085', 'bell\ufffd nul\ufffd shift\ufffd c1\ufffd'],
    ['right \u202e to left', 'right \u202e to left'],
  ];
  for (const [given = '', expected] of kept) assert.equal(await clean(given), expected, given);
});

test('a colour within a secret does not hide it from the mask', async () => {
  const mask = new SecretMask();
  mask.add('s3cret');
  const text = '#5 0.1 \u001b[31ms3c\u001b[0mret https:\u001b[1m//robot:pw@host/\n';
  assert.equal(
    await new LogText().clean(text, shown => mask.apply(shown)),
    '#5 0.1 *** https://***@host/\n',
  );
});

test('hostile lines of 1 MB never block the event loop, and take time by their length only', async () => {
  for (const part of [
    'a\r',
    '\u001b[31mx',
    '\u001b]',
    '\u001b[1',
    'ab\b',
    '\0',
    '\u001b]x\u0007',
  ]) {
    const line = `#5 0.1 ${part.repeat(1_000_000 / part.length)}`;
    const began = process.threadCpuUsage();
    const blocked = await longestBlock(() => clean(line));
    const { user } = process.threadCpuUsage(began);
    assert.ok(blocked.cpuMs < boundMs(50), `${JSON.stringify(part)}: ${blocked.cpuMs} ms`);
    assert.ok(user / 1000 < boundMs(1000), `${JSON.stringify(part)}: ${user / 1000} ms in all`);
  }
});

test('programs read plain text, unless they ask for colours', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const writer = logs.begin('key_1');
  const followed = async (hasColours: boolean) => {
    let text = '';
    for await (const piece of logs.follow('key_1', never, { hasColours })) text += piece.toString();
    return text;
  };
  const [plain, coloured] = [followed(false), followed(true)];
  writer.write('#5 0.1 \u001b[31mröd\u001b[0m\n');
  await writer.written();
  writer.write('#5 0.2 \u001b[32mgrön\n');
  await writer.end();
  assert.equal(await plain, '#5 0.1 röd\n#5 0.2 grön\n');
  assert.equal(
    await coloured,
    '#5 0.1 \u001b[0;31mröd\u001b[0m\n#5 0.2 \u001b[0;32mgrön\u001b[0m\n',
  );
  assert.equal(await logs.read('key_1'), await plain);
  assert.equal(await logs.read('key_1', { hasColours: true }), await coloured);
  const [line] = (await (await logs.lines('key_1'))?.search('RÖD', 5)) ?? [];
  assert.equal(line?.text, '#5 0.1 röd');
  assert.equal(line?.coloured, '#5 0.1 \u001b[0;31mröd\u001b[0m');
});

test('colours that end at the border of a piece are removed too', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const colour = '\u001b[0;38;2;100;100;100m';
  for (let before = 0; before < colour.length; before += 3) {
    const text = `${'x'.repeat(64 * 1024 - before)}${colour}ö\u001b[0m\n`;
    const id = `key_${before}`;
    await appendFile(directory.join(`${id}.log`), text);
    assert.equal(await logs.read(id), `${'x'.repeat(64 * 1024 - before)}ö\n`);
  }
});

test('a log of a million lines of steps is indexed in bounded memory, and never blocks the event loop', async () => {
  await using directory = await makeTempDir('logs');
  const logs = createBuildLogs(directory.path);
  const lines = Array.from({ length: 1_000_000 }, (_, at) => `#${at % 999_999} x\n`);
  await appendFile(directory.join('key_1.log'), lines.join(''));
  const blocked = await longestBlock(async () => {
    const index = await logs.lines('key_1');
    assert.equal(index?.total, 1_000_000);
    assert.equal(index?.steps.length, 1000);
    assert.equal((await index?.read(999_999, 1_000_000))?.[0]?.text, '#0 x');
  });
  assert.ok(blocked.cpuMs < boundMs(50), `${blocked.cpuMs} ms`);
});
