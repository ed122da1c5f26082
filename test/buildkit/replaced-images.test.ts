/** A build pulls its images under other names than those of the Dockerfile, which alone are shown. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

suite('replaced images', () => {
  let world: BuildWorld;
  let replacedImages: Record<string, { pulled: string; shown?: string }>;

  before(async () => {
    world = await startBuildWorld();
    replacedImages = {
      'images.invalid/base:1': { pulled: world.base },
      'images.invalid/base:latest': { pulled: world.base, shown: 'images.invalid/base:newest' },
    };
  });
  after(() => world?.close());

  const run = async (dockerfile: string, more: object = {}) => {
    const log: string[] = [];
    await world.build({ dockerfile, replacedImages, ...more }, { log });
    return log.join('');
  };

  test('of FROM, COPY and mounts', async () => {
    const dockerfile = `FROM images.invalid/base:1 AS one
RUN --mount=from=images.invalid/base,target=/mnt ls /mnt/bin > /list
FROM one
COPY --from=images.invalid/base:1 /bin/busybox /copy
RUN test -s /list && test -x /copy
`;
    const log = await run(dockerfile);
    assert.match(log, /FROM images\.invalid\/base:1@sha256:/);
    assert.ok(!log.includes(world.registry.host), log);
  });

  test('of named contexts', async () => {
    const namedContexts = { other: 'docker-image://images.invalid/base:1' };
    const log = await run('FROM other\nRUN true\n', { namedContexts });
    assert.ok(!log.includes(world.registry.host), log);
  });

  test('all others are denied, also those that they are replaced by', async () => {
    for (const name of [`${world.base}x`, 'images.invalid/base:2', 'busybox']) {
      await assert.rejects(run(`FROM ${name}\n`), /denied by policy/, name);
    }
  });

  test('errors show the name of the Dockerfile', async () => {
    const pulled = `${world.registry.host}/secret-token/none:1`;
    const missing = { 'images.invalid/none:1': { pulled } };
    await assert.rejects(
      world.build({ dockerfile: 'FROM images.invalid/none:1\n', replacedImages: missing }),
      (error: Error) => {
        assert.match(error.message, /images\.invalid\/none:1.*not found/s);
        return !error.message.includes('secret-token');
      },
    );
  });
});
