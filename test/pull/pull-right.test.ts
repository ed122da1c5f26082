/** What a pull asks about its caller and its image, and for how long a response counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { Reference } from '../../src/oci/reference.ts';
import type { SealedGrant } from '../../src/platform/identities.ts';
import { createCheckRight } from '../../src/pull/pull-right.ts';
import type { ContainerRequest } from '../../src/request/container-request.ts';
import type { BuildRow } from '../../src/storage/rows/images/build-rows.ts';
import type { Access } from '../../src/upstream/access.ts';

const ownHost = 'sluice.example.com';
const lifeMs = 1000;
const graceMs = 5000;
const [base, root, built] = [digestOf('base'), digestOf('root'), digestOf('built')];
const secret = { kind: 'password', username: 'ada', password: 'x' } as const;

interface State {
  /** Why the caller is no longer admitted. */
  refusal?: Error | undefined;
  /** Images that registries no longer show. */
  hidden?: string[];
  /** Requests behind served names. */
  served?: Record<string, ContainerRequest>;
  baseImages?: string[];
  /** Digest of the finished build. */
  digest?: string | null;
  isService?: boolean;
  /** When a response of a registry ends. */
  until?: number;
}

function world(state: State) {
  const asked: string[] = [];
  const nameOf = ({ registry, repository }: { registry: string; repository: string }) =>
    `${registry}/${repository}`;
  const check = createCheckRight({
    identities: {
      async require(grant) {
        asked.push(`require ${grant}`);
        if (state.refusal) throw state.refusal;
      },
      credentialsOf: grant => async registry => {
        asked.push(`credentials of ${grant} for ${registry}`);
        return grant && secret;
      },
    },
    async accessToBuilt({ registry, repository }: Reference, grant) {
      asked.push(`built for ${grant}`);
      return { registry, repository, credentials: undefined, isService: state.isService ?? false };
    },
    builds: {
      async get(id: string) {
        assert.equal(id, 'b');
        const origin = { kind: 'recipe', baseImages: state.baseImages ?? [] };
        return { id, plan: JSON.stringify({ origin }), digest: state.digest ?? null } as BuildRow;
      },
    },
    watch: {
      async check(access: Access, reference: string, isPublic: boolean) {
        const by = access.credentials ? 'with credentials' : 'without';
        asked.push(`${nameOf(access)} ${reference} ${by}${isPublic ? ', public' : ''}`);
        if (state.hidden?.includes(reference)) throw new Fault('denied', 'no longer shown');
        return state.until ?? Number.POSITIVE_INFINITY;
      },
    },
    findServed: async image => state.served?.[image.repository],
    ...{ ownHost, lifeMs, graceMs },
  });
  return { check, asked };
}

const grant = 'a grant' as SealedGrant;

function request(more: Partial<ContainerRequest> = {}): ContainerRequest {
  return {
    token: 'a'.repeat(32),
    image: { registry: 'r.example.com', repository: 'team/app', tag: 'v1' },
    fixed: {
      base: { mediaType: 'm', digest: base },
      root,
      served: { mediaType: 'm', digest: root },
    },
    caller: { address: '192.0.2.1', grant },
    ...more,
  } as ContainerRequest;
}

/** What {@link request} is built of. */
const ofBuild = (more: Partial<ContainerRequest> = {}) =>
  request({ isBuilt: true, buildId: 'b', fixed: undefined, ...more });

test('the caller must still be admitted, and the registry show the image with the current credentials', async () => {
  const { check, asked } = world({});
  const { access } = await check(request());
  assert.deepEqual(access.credentials, secret);
  assert.deepEqual(asked, [
    `require ${grant}`,
    `credentials of ${grant} for r.example.com`,
    `r.example.com/team/app ${base} with credentials`,
  ]);
  const anonymous = world({});
  await anonymous.check(request({ caller: { address: '192.0.2.1' }, isPublic: true }));
  assert.deepEqual(anonymous.asked, [
    'credentials of undefined for r.example.com',
    `r.example.com/team/app ${base} without, public`,
  ]);
});

test('whoever is refused by the platform or the registry does not pull', async () => {
  const refusal = new Fault('denied', 'the token was revoked');
  await assert.rejects(world({ refusal }).check(request()), refusal);
  await assert.rejects(world({ hidden: [base] }).check(request()), { kind: 'denied' });
});

test('included images must be shown, for images that exist and for those that are built', async () => {
  const includes = [{ registry: 'q.example.com', repository: 'other', digest: root }];
  for (const one of [request({ includes }), ofBuild({ includes })]) {
    const { check, asked } = world({ digest: built });
    await check(one);
    assert.ok(asked.includes(`q.example.com/other ${root} with credentials`), asked.join('\n'));
    const hidden = world({ digest: built, hidden: [root] });
    await assert.rejects(hidden.check(one), { kind: 'denied' });
  }
});

test('of a hosted image, the index that it was chosen from must exist as well', async () => {
  const image = { registry: ownHost, repository: 'team/app', tag: 'v1' };
  for (const hidden of [[root], [base]]) {
    await assert.rejects(world({ hidden }).check(request({ image })), { kind: 'denied' });
  }
  await world({ hidden: [root] }).check(request());
  const { base: only, served } = request().fixed ?? assert.fail();
  const { check, asked } = world({});
  await check(request({ image, fixed: { base: only, served } }));
  assert.equal(asked.filter(line => line.startsWith(ownHost)).length, 1);
});

test('of a built image, all images that it is made of must be shown, and the image itself', async () => {
  const baseImages = ['q.example.com/one:3', 'q.example.com/two', `q.example.com/three@${base}`];
  const { check, asked } = world({ baseImages, digest: built });
  await check(ofBuild());
  assert.deepEqual(asked.filter(line => line.includes(' with')).sort(), [
    'q.example.com/one 3 with credentials',
    `q.example.com/three ${base} with credentials`,
    'q.example.com/two latest with credentials',
    `r.example.com/team/app ${built} without`,
  ]);
  assert.ok(asked.includes(`built for ${grant}`));
  for (const hidden of ['3', 'latest', base, built]) {
    const state = { baseImages, digest: built, hidden: [hidden] };
    await assert.rejects(world(state).check(ofBuild()), { kind: 'denied' }, hidden);
  }
});

test('the image of a build is the one that was fixed, if there is one; none while it is built', async () => {
  const shownOf = async (state: State, one: ContainerRequest) => {
    const { check, asked } = world(state);
    await check(one);
    return asked.filter(line => line.includes(' with')).map(line => line.split(' ')[1]);
  };
  assert.deepEqual(await shownOf({ digest: built }, ofBuild({ fixed: request().fixed })), [base]);
  assert.deepEqual(await shownOf({ digest: null }, ofBuild()), []);
});

test('images of the service are asked about only where they can be deleted: in the hosted repositories', async () => {
  const hosted = { registry: ownHost, repository: 'builds/app', tag: 'x' };
  const state = { isService: true, digest: built, hidden: [built] };
  await world(state).check(ofBuild());
  await assert.rejects(world(state).check(ofBuild({ image: hosted })), { kind: 'denied' });
});

test('a served name in a build gives the rights of its own request', async () => {
  const baseImages = [`${ownHost}/ct/x/inner:1`];
  const inner = request({ caller: { address: '192.0.2.9', grant: 'another' as SealedGrant } });
  const { check, asked } = world({ baseImages, served: { 'ct/x/inner': inner } });
  await check(ofBuild());
  assert.ok(asked.includes('require another'));
  assert.ok(asked.includes(`r.example.com/team/app ${base} with credentials`));
  const hidden = world({ baseImages, served: { 'ct/x/inner': inner }, hidden: [base] });
  await assert.rejects(hidden.check(ofBuild()), { kind: 'denied' });
});

test('builds on served names of builds are followed eight deep', async () => {
  /** Builds that begin with one another, and the last with an image. */
  const chain = (length: number) => {
    let left = length;
    const state: State = {};
    const repeated = ofBuild();
    state.served = {};
    Object.defineProperty(state.served, 'ct/x/inner', {
      get: () => {
        left -= 1;
        return left < 0 ? request() : repeated;
      },
    });
    state.baseImages = [`${ownHost}/ct/x/inner:1`];
    return world(state);
  };
  await chain(7).check(ofBuild());
  await assert.rejects(chain(8).check(ofBuild()), {
    kind: 'bad-request',
    message: /more than 8 builds/,
  });
});

test('an answer counts for its life, or as long as those of the registries', async () => {
  const before = performance.now();
  const { until } = await world({}).check(request());
  assert.ok(until >= before + lifeMs && until <= performance.now() + lifeMs);
  assert.equal((await world({ until: 7 }).check(request())).until, 7);
  const pending = await world({ until: 7 }).check(request({ fixed: undefined }));
  assert.ok(pending.until > 7, 'nothing to ask about yet');
});

test('while a platform does not answer, its last answer counts for a time', async t => {
  let now = 10_000;
  t.mock.method(performance, 'now', () => now);
  for (const [failure, counts] of [
    [new Fault('unavailable', 'away'), true],
    [new Fault('internal', 'it says 500'), true],
    [new Fault('too-many-requests', 'later'), true],
    [new Fault('denied', 'the token was revoked'), false],
    [new Error('a bug'), false],
  ] as const) {
    const state: State = {};
    const { check } = world(state);
    const { access } = await check(request());
    state.refusal = failure;
    now += graceMs - 1;
    if (counts) assert.equal((await check(request())).access, access);
    else await assert.rejects(check(request()), failure);
    const other = request({ token: 'b'.repeat(32) as ContainerRequest['token'] });
    await assert.rejects(check(other), failure, 'another request has no answer yet');
    now += 1;
    await assert.rejects(check(request()), failure);
  }
});

test('the last answer of a platform does not stand in for a registry', async () => {
  const state: State = {};
  const { check } = world(state);
  await check(request());
  state.refusal = new Fault('unavailable', 'away');
  state.hidden = [base];
  await assert.rejects(check(request()), { kind: 'denied' });
});
