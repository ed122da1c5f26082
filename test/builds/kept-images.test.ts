import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createTargetRepository,
  type TargetRepositoryDeps,
} from '../../src/builds/target-repository.ts';
import type { ExpiredBuild } from '../../src/storage/rows/images/build-rows.ts';

test('the images of a forgotten build without a login are removed, except frozen ones and those of users', () => {
  const host = '127.0.0.1:9090';
  const places = {
    repository: `${host}/builds`,
    cache: undefined,
    frozen: { docker: `${host}/kept` },
    local: { sif: `${host}/public/sif` },
  };
  // Only the places decide.
  const deps = { ownHost: host, places } as unknown as TargetRepositoryDeps;
  const { removedWith } = createTargetRepository(deps);
  const tagsRemoved = (name: string, isTrusted = false) =>
    removedWith({
      id: '1',
      target: `${name}:tag`,
      digest: 'sha256:1',
      isTrusted,
    } as unknown as ExpiredBuild);
  assert.equal(tagsRemoved(`${host}/builds/samtools`)?.repository, 'builds/samtools');
  assert.equal(tagsRemoved(`${host}/public/sifted`)?.repository, 'public/sifted');
  for (const kept of ['kept', 'kept/samtools', 'public/sif', 'public/sif/samtools']) {
    assert.equal(tagsRemoved(`${host}/${kept}`), undefined, kept);
  }
  assert.equal(tagsRemoved(`${host}/builds`, true), undefined);
});
