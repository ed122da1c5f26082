import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runProgram } from '../world/program.ts';

const script = `
import { createLogger } from ${JSON.stringify(new URL('../../src/foundation/telemetry.ts', import.meta.url).href)};
import { spreadLastNet } from ${JSON.stringify(new URL('../../src/server/life/stop-server.ts', import.meta.url).href)};
let lines = 0;
const write = line => { lines += 1; process.stdout.write(line); };
const log = createLogger('info', { write });
const turn = () => new Promise(resolve => setTimeout(resolve, 20));
{
  using net = spreadLastNet(log);
  setImmediate(() => { throw new Error('of a listener'); });
  for (let count = 0; count < 50; count += 1) Promise.reject(new Error('of a promise'));
  await turn();
  while (lines < 2) {
    setTimeout(() => { throw new Error('of a timer'); });
    await turn();
  }
  console.log('it went on');
}
setImmediate(() => { throw new Error('after the net'); });
`;

test('an uncaught error is logged at most once a second, and does not end the process', async () => {
  const result = await runProgram(
    [process.execPath, '--input-type=module-typescript', '-e', script],
    {
      env: { PATH: process.env.PATH },
    },
  );
  const lines = result.stdout.trim().split('\n');
  assert.equal(lines.pop(), 'it went on', result.stderr);
  const told = lines.map(line => JSON.parse(line));
  assert.equal(told.length, 2);
  assert.ok(told.every(({ level }) => level === 'fatal'));
  assert.equal(told[0].origin, 'unhandledRejection');
  assert.equal(told[0].unlogged, undefined);
  assert.ok(told[1].unlogged >= 50, 'skipped errors are counted');
  // Before the server is ready, and after its end, such an error ends the process.
  assert.notEqual(result.code, 0);
  assert.match(result.stderr, /after the net/);
});
