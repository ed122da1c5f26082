/** The order of work at the end of the server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '../src/foundation/telemetry.ts';
import { closeInTurn } from '../src/foundation/work.ts';

test('a part that cannot be closed is logged, and the next parts are closed', async () => {
  const lines: string[] = [];
  const log = createLogger('error', { write: line => void lines.push(line) });
  const closed: string[] = [];
  await closeInTurn(
    [
      ['first', () => Promise.reject(new Error('EBUSY'))],
      [
        'second',
        () => {
          throw new Error('EIO');
        },
      ],
      ['third', async () => closed.push('third')],
    ],
    log,
  );
  assert.deepEqual(closed, ['third']);
  assert.deepEqual(
    lines.map(line => JSON.parse(line)).map(({ part, err }) => `${part}: ${err.message}`),
    ['first: EBUSY', 'second: EIO'],
  );
});
