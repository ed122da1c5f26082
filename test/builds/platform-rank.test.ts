import assert from 'node:assert/strict';
import { test } from 'node:test';
import { platformRank } from '../../src/builds/builder/builder-fit.ts';

test('a builder with a native platform precedes one that emulates it, which precedes the others', () => {
  const amd = ['linux/amd64', 'linux/amd64/v2', 'linux/386'];
  const emulating = [...amd, 'linux/arm64'];
  const arm = ['linux/arm64', 'linux/arm/v7'];
  const order = (wanted: readonly string[]) => {
    const builders = Object.entries({ amd, emulating, arm });
    const ranked = builders.map(
      ([name, offered]) => [name, platformRank(wanted, offered)] as const,
    );
    return ranked.sort(([, one], [, other]) => one - other).map(([name]) => name);
  };
  assert.deepEqual(order(['linux/arm64']), ['arm', 'emulating', 'amd']);
  assert.equal(platformRank(['linux/amd64'], amd), platformRank(['linux/amd64'], emulating));
  assert.equal(order(['linux/amd64']).at(-1), 'arm');
  assert.equal(order(['linux/amd64', 'linux/arm64'])[0], 'emulating');
  assert.equal(platformRank([], arm), 0);
});
