import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSolve, type SolveDeps } from '../../src/builds/solve/solve.ts';

const unused = () => assert.fail('it was called');
const noAccess = {
  credentials: async () => undefined,
  tokens: { covers: async () => false, fetch: unused },
};

test('the layers of a Singularity image are removed, however its build ends', async () => {
  const dropped: string[] = [];
  const solve = createSolve({
    runRecipe: async () => {
      throw new Error('the builder is gone');
    },
    staging: {
      host: 'sluice.test',
      repositoryOf: id => ({ registry: 'sluice.test', repository: `builds/staging/${id}` }),
      drop: async id => void dropped.push(id),
    },
    rightsOf: () => ({ forBuilder: () => noAccess, access: unused }),
    ...{ documents: {} as SolveDeps['documents'], makeImage: unused, publish: unused },
    ...{ makeSif: unused, attach: unused, redate: unused, stageSifBases: unused },
    makeCondaImage: unused,
  });
  const run = (sif: boolean) =>
    solve({
      id: 'key_1',
      plan: {
        ...{ key: 'key', target: 'registry.test/image:key', change: {} },
        origin: {
          kind: 'recipe',
          recipe: 'dockerfile',
          ...{ dockerfile: 'FROM scratch\n', files: {}, lockStage: undefined, cache: undefined },
          ...{ platforms: ['linux/amd64'], baseImages: [] },
        },
        ...(sif ? { sif: { definition: { text: '', headers: {}, labels: {} } } } : {}),
      },
      grant: undefined,
      owner: 'nobody',
      isTrusted: false,
      log: { write() {}, async written() {}, async end() {} },
      signal: new AbortController().signal,
    });
  await assert.rejects(run(true), /the builder is gone/);
  assert.deepEqual(dropped, ['key_1']);
  await assert.rejects(run(false), /the builder is gone/);
  assert.deepEqual(dropped, ['key_1']);
});
