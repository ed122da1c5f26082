import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configuredPlaces } from '../../src/server/config/read/access-in-force.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';

const host = '127.0.0.1:9090';
const both = { docker: `${host}/public/frozen`, sif: `${host}/public/sif` };

test('only a local server keeps frozen images of callers without a login, unless its operator decides', () => {
  const docker = 'registry.test/frozen';
  const sif = 'registry.test/sif';
  for (const [settings, frozen, local, homes] of [
    [{}, {}, both, true],
    [{ freezeRepository: docker }, { docker, sif: docker }, {}, true],
    [{ freezeSifRepository: sif }, { sif }, { docker: both.docker }, true],
    [{ freezeSifRepository: 'off' }, {}, { docker: both.docker }, true],
    [{ freezeRepository: 'off' }, {}, {}, false],
    [{ freezeRepository: 'off', freezeSifRepository: sif }, { sif }, {}, false],
    // YAML reads a bare `off` as a boolean.
    [{ freezeRepository: false }, {}, {}, false],
    // Nobody could pull it.
    [{ hosted: { anonymous: ['public/frozen'] } }, {}, { docker: both.docker }, true],
    [{ listen: '0.0.0.0:9090' }, {}, undefined, true],
    [{ trustedProxies: 1, access: { builds: 'open' } }, {}, undefined, true],
  ] as const) {
    const places = configuredPlaces(configSchema.parse(settings), new URL(`http://${host}`));
    const found = { frozen: places.frozen, local: places.local, homes: places.homes };
    assert.deepEqual(found, { frozen, local, homes }, JSON.stringify(settings));
  }
});
