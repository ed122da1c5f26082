import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  hasPathToken,
  pathTokenIn,
  plainBase,
  readWrittenChannel,
} from '../../../src/conda/channels/channel-address.ts';
import { packageOfUrl } from '../../../src/conda/locks/read-lock-text.ts';

test('a platform is written in brackets or at the end of a channel', () => {
  for (const [written, channel, subdirs] of [
    ['conda-forge', 'conda-forge', undefined],
    ['conda-forge[linux-64,noarch]', 'conda-forge', ['linux-64', 'noarch']],
    ['conda-forge/linux-64', 'conda-forge', ['linux-64']],
    ['conda-forge/label/dev/noarch', 'conda-forge/label/dev', ['noarch']],
    ['https://host/conda-forge/linux-aarch64/', 'https://host/conda-forge', ['linux-aarch64']],
    ['https://host/conda-forge/osx-arm64', 'https://host/conda-forge', ['osx-arm64']],
    ['conda-forge/linux-64[noarch]', 'conda-forge', ['noarch']],
    ['https://linux-64', 'https://linux-64', undefined],
    ['team/linux', 'team/linux', undefined],
    ['team/linux-64-extra', 'team/linux-64-extra', undefined],
  ] as const) {
    assert.deepEqual(readWrittenChannel(written), { channel, subdirs }, written);
  }
});

test('a token is found at any depth of a path, and is not part of a base URL', () => {
  for (const [address, base] of [
    ['https://repo.test/t/tk-1/team', 'https://repo.test/team'],
    ['https://repo.test/conda/t/tk-1/team/', 'https://repo.test/conda/team'],
    ['https://repo.test/a/b/t/tk-1', 'https://repo.test/a/b'],
    ['https://repo.test//t/tk-1/team', 'https://repo.test//team'],
  ] as const) {
    assert.ok(hasPathToken(address), address);
    assert.equal(plainBase(address), base);
  }
  assert.ok(hasPathToken('t/tk-1/team'));
  for (const address of [
    'https://t/x/y',
    'https://host/t',
    'https://host/at/x',
    'https://h/x?/t/y',
  ]) {
    assert.ok(!hasPathToken(address), address);
  }
  assert.deepEqual(pathTokenIn('/conda/t/tk-1/team'), { above: '/conda', token: 'tk-1' });
  assert.equal(pathTokenIn('/conda/team'), undefined);
});

test('a package with a token in its address is refused, and the message does not repeat it', () => {
  for (const start of ['https://h/t/tk-1/c', 'https://h/conda/t/tk-1/c', 'ftp://h/x/t/tk-1/c']) {
    assert.throws(
      () => packageOfUrl(`${start}/linux-64/a-1-0.conda`),
      (error: Error) => /contains credentials/.test(error.message) && !/tk-1/.test(error.message),
    );
  }
});
