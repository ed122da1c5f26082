/** What a person at a terminal reads of the log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { LogDestination } from '../../src/foundation/telemetry/log-destination.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { terminalLog } from '../../src/server/life/terminal-log.ts';
import { freePort } from '../world/free-port.ts';
import { runProgram } from '../world/program.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  let text = '';
  const destination: LogDestination = {
    write: line => {
      text += line;
    },
    flush() {},
    close: async () => {},
  };
  write(createLogger('info', terminalLog(destination, false)));
  return text;
}

test('the start is told in sentences', () => {
  const text = logged(log => {
    log.info(
      { access: { requests: 'open', builds: 'login', pulls: 'open' } },
      'access rules of this server',
    );
    log.info({ url: 'http://127.0.0.1:9090', listen: '127.0.0.1:9090', data: '/data' }, 'ready');
  });
  assert.match(
    text,
    /^Allows requests, pulls for everybody who reaches it; builds for callers with a login\.\nSluice \d+\.\d+\.\d+\S* is ready: http:\/\/127\.0\.0\.1:9090\. State: \/data\. Ctrl-C stops it\.\n$/,
  );
});

test('a request, a failure and its causes are one line each, without control characters', () => {
  const text = logged(log => {
    log.info({ method: 'GET', path: '/\u001b[2Jx', status: 404, ms: 7, requestId: 'a' }, 'request');
    log.error(
      { err: new Fault('unavailable', 'No disk\u0007', { cause: new Error('EIO') }) },
      'cannot write',
    );
  }).replaceAll(/^\d\d:\d\d:\d\d/gm, 'TIME');
  assert.equal(
    text,
    'TIME GET /?[2Jx 404  ms=7 requestId=a\nTIME error: cannot write: No disk?: EIO\n',
  );
});

test('a cause whose message the failure contains is not shown again, and lines become one', () => {
  const text = logged(log => {
    const cause = new Error('no address\nfor\n  it');
    log.error({ err: new Fault('unavailable', 'No base: no address; for; it', { cause }) }, 'x');
  }).replaceAll(/^\d\d:\d\d:\d\d/gm, 'TIME');
  assert.equal(text, 'TIME error: x: No base: no address; for; it\n');
});

test('a defect keeps its stack', () => {
  const text = logged(log => log.fatal({ err: new TypeError('x is not a function') }, 'defect'));
  assert.match(text, /fatal: defect: x is not a function\n +at /);
});

test('a port in use is an error that names the setting', async () => {
  await using first = await startSluice({ port: await freePort() });
  await using directory = await makeTempDir('second');
  const { code, stdout } = await runProgram([process.execPath, 'bin/sluice.js', 'serve'], {
    env: {
      SLUICE_LISTEN: `127.0.0.1:${first.port}`,
      SLUICE_DATA: directory.path,
      SLUICE_LOG_FORMAT: 'text',
    },
  });
  assert.equal(code, 1);
  assert.match(stdout, /error: .*cannot listen on .*SLUICE_LISTEN/);
  assert.doesNotMatch(stdout, /fatal|"level"/);
});
