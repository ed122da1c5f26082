import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultOfUnsolved } from '../../../src/conda/solving/explanation.ts';
import { Unsolved } from '../../../src/conda/solving/solve-thread.ts';
import { Fault } from '../../../src/foundation/fault.ts';

const explained = (cause: Unsolved['reason'], message: string): Fault => {
  const fault = faultOfUnsolved(new Unsolved(cause, message), ['conda-forge', 'bioconda'], 2 ** 29);
  assert.ok(fault instanceof Fault);
  assert.equal(fault.apiStatus, 400);
  return fault;
};

test('a conflict is explained with the channels, in a bounded number of lines', () => {
  const lines = Array.from({ length: 500 }, (_, at) => `├─ package-${at} would require`);
  const { message } = explained(
    'solver',
    `Cannot solve the request because of: ${lines.join('\n')}`,
  );
  assert.match(
    message,
    /^The environment has no solution with .* conda-forge, bioconda: ├─ package-0/,
  );
  assert.ok(message.split('\n').length <= 60);
});

test('a solver that breaks down reports its reason without its stack', () => {
  const { message } = explained(
    'fault',
    'panicked at crates/resolvo/src/solver.rs:10:5:\nindex out of bounds\n\nStack:\n\nError\n    at wasm://wasm/00b9e906',
  );
  assert.match(message, /broke down on this environment \(index out of bounds\)/);
  assert.ok(!message.includes('wasm://') && !message.includes('crates/'));
});

test('an error that is none of the solver stays as it is', () => {
  const error = new Error('other');
  assert.equal(faultOfUnsolved(error, [], 0), error);
});
