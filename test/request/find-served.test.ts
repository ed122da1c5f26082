/** Image names that refer to a container request, and what they may be used for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { parseReference } from '../../src/oci/reference.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import { createFindServed, onTopOf } from '../../src/request/served-name.ts';

const ownHost = 'sluice.example.com';
const token = 'a'.repeat(32);
const digest = digestOf('served');
const other = digestOf('other');
const live = {
  image: { registry: 'docker.io', repository: 'team/app', tag: 'v1' },
  fixed: { base: { digest: other }, served: { digest } },
  targetImage: `${ownHost}/ct/${token}/team/app:v1`,
} as unknown as ContainerRequest;

function find(name: string, more: Partial<ContainerRequest> = {}, isOpen = true) {
  const tokens = {
    async get(asked: string) {
      if (asked === 'broken') throw new Fault('unavailable', 'the database is away');
      if (asked !== token) throw new Fault('not-found', 'Unknown container token');
      return { ...live, ...more };
    },
  };
  const served = createFindServed({ tokens, ownHost, servedPrefix: 'ct/', isOpen });
  return served(parseReference(name));
}

test('only names of this server below its prefix are served names', async () => {
  for (const name of [
    `docker.io/ct/${token}/team/app:v1`,
    `other.example.com/ct/${token}/team/app:v1`,
    `${ownHost}/team/app:v1`,
    `${ownHost}/x/ct/${token}/team/app:v1`,
    `${ownHost}/cat/${token}/team/app:v1`,
  ]) {
    assert.equal(await find(name), undefined, name);
    assert.equal(await find(name, {}, false), undefined, name);
  }
});

test('the name gives its request by its own tag or its own digest', async () => {
  for (const reference of [`:v1`, `@${digest}`, `:other@${digest}`]) {
    const name = `${ownHost}/ct/${token}/team/app${reference}`;
    assert.equal((await find(name))?.targetImage, live.targetImage, name);
  }
  const latest = { ...live.image, tag: 'latest' };
  const { tag: _, ...untagged } = live.image;
  for (const image of [latest, untagged]) {
    for (const reference of ['', ':latest']) {
      assert.ok(await find(`${ownHost}/ct/${token}/team/app${reference}`, { image }));
    }
  }
});

test('another name with the same token is refused, without the token in the message', async () => {
  for (const [reference, more] of [
    ['team/app:v2', {}],
    ['team/app', {}],
    ['team/other:v1', {}],
    ['app:v1', {}],
    ['team/app/more:v1', {}],
    [`team/app@${other}`, {}],
    [`team/app:v1@${other}`, {}],
    [`team/app@${digest}`, { fixed: undefined }],
  ] as const) {
    await assert.rejects(find(`${ownHost}/ct/${token}/${reference}`, more), (error: unknown) => {
      assert.ok(error instanceof Fault && error.kind === 'bad-request', reference);
      assert.match(error.message, /^This container token serves team\/app:v1 only/);
      return true;
    });
  }
});

test('the message has no token, also where the repository is named like the prefix', async () => {
  const image = { ...live.image, repository: 'ct' };
  const more = { image, targetImage: `${ownHost}/ct/${token}/ct:v1` };
  const message = /^This container token serves ct:v1 only/;
  await assert.rejects(find(`${ownHost}/ct/${token}/other`, more), { message });
});

test('an unknown token is a mistake of the caller; a failure stays a failure', async () => {
  const unknown = {
    kind: 'bad-request',
    message: 'The image is a served name. Unknown container token',
  };
  await assert.rejects(find(`${ownHost}/ct/bbb/team/app:v1`), unknown);
  await assert.rejects(find(`${ownHost}/ct/broken/team/app:v1`), { kind: 'unavailable' });
});

test('where pulls require a login, the name alone is not enough', async () => {
  await assert.rejects(find(`${ownHost}/ct/${token}/team/app:v1`, {}, false), { kind: 'denied' });
});

test('a frozen image has another name, which the refusal tells', async () => {
  const frozen = { isFrozen: true, targetImage: 'r.example.com/frozen:1' };
  await assert.rejects(find(`${ownHost}/ct/${token}/team/app:v1`, frozen), {
    ...{ kind: 'bad-request', message: 'The image is frozen: name it as r.example.com/frozen:1' },
  });
});

test('a change goes on top of up to three others, of a mebibyte together', () => {
  const refused = { kind: 'bad-request', message: /at most 4 changes of 1048576 characters/ };
  const second = onTopOf({ cmd: ['1'] }, { cmd: ['2'] });
  assert.deepEqual(second, { cmd: ['2'], onTopOf: { cmd: ['1'] } });
  const fourth = onTopOf(onTopOf(second, { cmd: ['3'] }), { cmd: ['4'] });
  assert.throws(() => onTopOf(fourth, { cmd: ['5'] }), refused);
  const frame = JSON.stringify({ cmd: [''], onTopOf: { cmd: ['1'] } }).length;
  const largest = 'x'.repeat(1024 * 1024 - frame);
  onTopOf({ cmd: ['1'] }, { cmd: [largest] });
  assert.throws(() => onTopOf({ cmd: ['1'] }, { cmd: [`${largest}x`] }), refused);
});
