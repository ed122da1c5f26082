/** Untrusted texts, which a terminal must not obey. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { BuildSteps } from '../../src/cli/progress/build-steps.ts';
import { lastFrameOf, progressDisplay } from '../../src/cli/progress/display.ts';
import { terminalLine, terminalLines } from '../../src/foundation/text.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

// Set the title of the terminal, by the control characters of 7 and of 8 bits.
const hostile = '\x1b]0;owned\x07 \x9d0;owned\x9c';
const obeyed = /(?!\n)\p{Cc}/u;

/** Runs a command against a server that gives the same response to each request. */
async function run(args: readonly string[], status: number, reply: object) {
  const server = createServer((_, response) => {
    response.writeHead(status).end(JSON.stringify(reply));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  try {
    return await sluiceCommand(args, { SLUICE_SERVER: `http://127.0.0.1:${port}` });
  } finally {
    server.close();
  }
}

test('control characters of a line become question marks', () => {
  assert.equal(terminalLine('a\x1b[31mb\nc\x9bd\u202ee'), 'a?[31mb?c?d?e');
});

test('a message keeps its line breaks and loses its colours', () => {
  assert.equal(terminalLines('a\x1b[31mb\x1b[0m\nc\r\n50%\r100%\td\x07'), 'ab\nc\n50%\n100% d?');
});

test('the metadata of an image is printed without control characters', async () => {
  const container = {
    ...{ hostName: 'h', imageName: 'n', reference: 'r', digest: 'sha256:0' },
    config: {
      ...{ os: hostile, architecture: 'amd64', created: hostile },
      config: {
        ...{ env: [`A=${hostile}`], user: hostile, workingDir: hostile },
        ...{ cmd: [hostile], entrypoint: ['\x9b31m'] },
      },
    },
    manifest: { mediaType: hostile, layers: [] },
  };
  const plain = await run(['inspect', 'n:r'], 200, { container });
  assert.equal(plain.code, 0, plain.stderr);
  assert.doesNotMatch(plain.stdout, obeyed);
  assert.match(plain.stdout, /^Env {10}A=\?\]0;owned\? \?0;owned\?$/m);
  assert.equal(plain.stdout.trimEnd().split('\n').length, 11);
  const json = await run(['inspect', '--json', 'n:r'], 200, { container });
  assert.deepEqual(JSON.parse(json.stdout), { container });
});

test('a message of the server is printed without control characters', async () => {
  const message = `no\x1b[2J\x9b2J ${hostile}\nTry again`;
  const refused = await run(['inspect', 'n:r'], 400, { message });
  assert.equal(refused.code, 1);
  assert.doesNotMatch(refused.stderr, obeyed);
  assert.match(refused.stderr, /^no .*\nTry again\n$/);
  const cancelled = await run(['cancel', 'abc_1'], 200, { message, cancelled: true });
  assert.doesNotMatch(cancelled.stdout, obeyed);
  const named = await run(['request', '--image', 'n:r'], 200, {
    ...{ targetImage: `t${hostile}`, warnings: [message] },
  });
  assert.doesNotMatch(named.stdout + named.stderr, obeyed);
});

test('a table of a server is printed without control characters', async () => {
  const tags = await run(['repositories', 'list'], 200, {
    repositories: [{ repository: hostile, bytes: 1 }],
  });
  assert.doesNotMatch(tags.stdout, obeyed);
});

test('warnings and messages of a build are shown without control characters', () => {
  const log = `#1 RUN x\n#1 WARN: ${hostile}\n#1 ERROR: no\n------\n${hostile}\x1b[2J\rend\n`;
  const build = new BuildSteps();
  for (const line of log.split('\n')) build.take(line, 0);
  const shape = { nowMs: 0, beganMs: 0, columns: 80, rows: 24 };
  const frame = lastFrameOf(build, false, { ...shape, style: (_look, text) => text });
  assert.equal(frame.at(-1), 'Warning: ?]0;owned? ?0;owned?');

  const sink = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 });
  const display = progressDisplay(sink as unknown as NodeJS.WriteStream, false);
  display.write(Buffer.from(log));
  display.end({ succeeded: false });
  const shown = String(sink.read());
  assert.match(shown, /\nend\n/);
  // The display itself moves the cursor.
  for (const order of ['\x07', '\x9d', '\x1b[2J']) assert.ok(!shown.includes(order), shown);
});
