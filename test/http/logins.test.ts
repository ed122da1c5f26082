/** Passwords and tokens cannot be guessed by trial, on any route. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { createLimiter } from '../../src/http/limits/limiter.ts';
import { assertApiFault, assertRegistryFault, call, type Reply } from '../faults/http-client.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { basic } from './platform/platform-server.ts';

const admin = { name: 'admin', password: 'secret' };
const good = basic('admin', 'secret');
const wrong = basic('admin', 'guess');
const json = { 'content-type': 'application/json' };
const limitText =
  /limit of 3 failed logins from one address per hour is reached: try again in \d+ s, or check/;

/** One try from an address; a wrong one is refused with these statuses, a good one is let in. */
interface Door {
  readonly what: string;
  readonly isRegistry?: boolean;
  /** Valid credentials are still accepted. */
  readonly isOpen?: boolean;
  try(at: Entrance, isGood: boolean, address: string): Promise<Reply>;
  readonly refused: number;
}

interface Entrance {
  readonly sluice: Sluice;
  readonly token: string;
}

function knock(path: string, method = 'GET', refused = 401): Door {
  return {
    what: `${method} ${path}`,
    isRegistry: path.startsWith('/v2/'),
    refused,
    try: ({ sluice }, isGood, address) =>
      call(sluice.url + path, {
        method,
        headers: { authorization: isGood ? good : wrong, 'x-forwarded-for': address },
      }),
  };
}

function claim(path: string): Door {
  return {
    what: `an access token for ${path}`,
    isOpen: true,
    refused: 403,
    try: ({ sluice, token }, isGood, address) =>
      call(sluice.url + path, {
        method: 'POST',
        headers: { ...json, 'x-forwarded-for': address },
        body: JSON.stringify({
          containerImage: '127.0.0.1:1/x:1',
          platformAccessToken: isGood ? token : 'sluice_guess',
        }),
      }),
  };
}

const doors: readonly Door[] = [
  knock('/v1alpha2/metrics/pulls'),
  knock('/container-token/nobody', 'DELETE'),
  knock('/v1alpha1/builds/none_1', 'DELETE'),
  knock('/platform/users'),
  knock('/v2/'),
  knock('/v2/team/app/tags/list'),
  knock('/v2/token'),
  knock('/v2/token?scope=repository:team/app:pull'),
  {
    what: 'an access token for the platform',
    isOpen: true,
    refused: 403,
    try: ({ sluice, token }, isGood, address) =>
      call(`${sluice.url}/platform/user-info`, {
        headers: {
          authorization: `Bearer ${isGood ? token : 'sluice_guess'}`,
          'x-forwarded-for': address,
        },
      }),
  },
  claim('/v1alpha2/container'),
  claim('/v1alpha1/inspect'),
];

const start = async (): Promise<Entrance & AsyncDisposable> => {
  const sluice = await startSluice({
    config: { accounts: { admin: 'secret' }, trustedProxies: 1, limits: { logins: '3/hour' } },
  });
  const token = await newAccessToken(sluice, admin, 'ada@example.org');
  return { sluice, token, [Symbol.asyncDispose]: sluice.stop };
};

suite('failed logins', { concurrency: 4 }, () => {
  let at: Awaited<ReturnType<typeof start>>;

  before(async () => {
    at = await start();
  });
  after(() => at?.[Symbol.asyncDispose]());

  // Each test has addresses of its own, whose failed logins only it counts.
  let addresses = 0;
  const newAddress = () => `198.18.0.${++addresses}`;

  for (const door of doors) {
    test(`are limited by address, successful ones are not: ${door.what}`, async () => {
      const [own, other] = [newAddress(), newAddress()];
      for (let tries = 0; tries < 6; tries += 1) {
        const { status } = await door.try(at, true, own);
        assert.ok(![401, 403, 429].includes(status), `let in, and what follows is ${status}`);
      }
      for (let tries = 0; tries < 3; tries += 1) {
        assert.equal((await door.try(at, false, own)).status, door.refused);
      }
      for (const isGood of [false, true]) {
        const reply = await door.try(at, isGood, own);
        if (isGood && door.isOpen) {
          assert.ok(![401, 403, 429].includes(reply.status), `${reply.status}`);
          continue;
        }
        const wait = Number(reply.headers['retry-after']);
        assert.ok(wait > 3400 && wait <= 3600, `${wait} s until one of three an hour is free`);
        if (door.isRegistry) {
          assertRegistryFault(reply, { status: 429, code: 'TOOMANYREQUESTS', message: limitText });
        } else assertApiFault(reply, 429, limitText);
      }
      const elsewhere = await door.try(at, true, other);
      assert.ok(![401, 403, 429].includes(elsewhere.status), 'another address is not hindered');
    });
  }

  test('count together, whatever was tried; requests without credentials do not count', async () => {
    const own = newAddress();
    for (const door of [doors[0], doors[3], doors[8]] as Door[]) {
      await door.try(at, false, own);
    }
    for (const path of ['/v1alpha2/metrics/pulls', '/platform/users', '/v2/', '/v2/x/tags/list']) {
      const { status } = await call(at.sluice.url + path, {
        headers: { 'x-forwarded-for': own },
      });
      assert.equal(status, 401, path);
    }
    for (const door of doors) {
      const { status } = await door.try(at, true, own);
      assert.equal(status === 429, !door.isOpen, door.what);
    }
  });

  test('of neighbours do not lock out a token that a platform has accepted before', async () => {
    await using platform = await startSluice({ config: { accounts: { admin: 'secret' } } });
    const token = await newAccessToken(platform, admin, 'ada@example.org');
    await using sluice = await startSluice({
      config: {
        trustedProxies: 1,
        limits: { logins: '3/hour' },
        platform: { url: `${platform.url}/platform` },
      },
    });
    const door = claim('/v1alpha2/container');
    const statusOf = async (isGood: boolean) =>
      (await door.try({ sluice, token }, isGood, '192.0.2.1')).status;
    assert.ok(![401, 403, 429].includes(await statusOf(true)));
    for (let tries = 0; tries < 3; tries += 1) assert.equal(await statusOf(false), 403);
    const before = (await platform.requests()).length;
    for (let tries = 0; tries < 5; tries += 1) assert.equal(await statusOf(false), 429);
    assert.equal((await platform.requests()).length, before, 'the platform is not asked');
    assert.ok(![401, 403, 429].includes(await statusOf(true)));
  });

  test('of a registry that is checked here count as well', async () => {
    await using registry = await startRegistry({ auth: 'basic' });
    await using sluice = await startSluice({
      config: {
        trustedProxies: 1,
        limits: { logins: '3/hour' },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const valid = (password: string, address: string) =>
      call(`${sluice.url}/v1alpha2/validate-creds`, {
        method: 'POST',
        headers: { ...json, 'x-forwarded-for': address },
        body: JSON.stringify({ registry: registry.host, userName: registry.username, password }),
      });
    for (let tries = 0; tries < 5; tries += 1) {
      assert.equal((await valid(registry.password, '192.0.2.1')).body.toString(), 'true');
    }
    // Simultaneous logins all pass: the next one waits for each of them, but no longer than an hour.
    const together = Array.from({ length: 9 }, () => valid('guess', '192.0.2.1'));
    const tried = (await Promise.all(together)).filter(({ status }) => status === 200).length;
    assert.ok(tried >= 3);
    const reply = await valid(registry.password, '192.0.2.1');
    assertApiFault(reply, 429, limitText);
    const wait = Number(reply.headers['retry-after']);
    assert.ok(wait > (Math.min(tried, 5) - 2) * 1190, `${wait} s after ${tried}`);
    assert.ok(wait <= 3600, `${wait} s after ${tried}`);
    assert.equal((await valid(registry.password, '192.0.2.2')).body.toString(), 'true');
  });

  test('that are checked through this server do not count for its own address', async () => {
    const [own, other] = [newAddress(), newAddress()];
    const valid = async (password: string, address: string) => {
      const reply = await call(`${at.sluice.url}/v1alpha2/validate-creds`, {
        method: 'POST',
        headers: { ...json, 'x-forwarded-for': address },
        body: JSON.stringify({ registry: at.sluice.host, userName: 'admin', password }),
      });
      return reply.status === 200 ? reply.body.toString() : reply.status;
    };
    for (const address of [own, other]) {
      assert.equal(await valid('secret', address), 'true');
      for (let tries = 0; tries < 3; tries += 1)
        assert.equal(await valid('guess', address), 'false');
      assert.equal(await valid('secret', address), 429);
    }
    const here = await call(`${at.sluice.url}/v2/token`, { headers: { authorization: good } });
    assert.equal(here.status, 200);
  });

  test('are neither checked nor counted where no login is required', async () => {
    const own = newAddress();
    const scope = 'repository:ct/anything/app:pull';
    const sub = async (authorization: string | undefined) => {
      const reply = await call(`${at.sluice.url}/v2/token?scope=${scope}`, {
        headers: { ...(authorization ? { authorization } : {}), 'x-forwarded-for': own },
      });
      assert.equal(reply.status, 200);
      const { token } = JSON.parse(reply.body.toString());
      return JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString()).sub;
    };
    for (let tries = 0; tries < 5; tries += 1) assert.equal(await sub(wrong), '');
    assert.equal(await sub(good), '', 'the token does not reveal a correct guess');
    assert.equal((await doors[0]?.try(at, true, own))?.status, 200);
  });

  test('do not end the transfers of clients with a registry token', async () => {
    const own = newAddress();
    const { body } = await call(`${at.sluice.url}/v2/token?scope=repository:public/app:pull`);
    const { token } = JSON.parse(body.toString());
    const login = doors[4] as Door;
    for (let tries = 0; tries < 4; tries += 1) await login.try(at, false, own);
    assert.equal((await login.try(at, true, own)).status, 429);
    for (const authorization of [`Bearer ${token}`, basic('token', token)]) {
      const reply = await call(`${at.sluice.url}/v2/public/app/manifests/1`, {
        headers: { authorization, 'x-forwarded-for': own },
      });
      assert.equal(reply.status, 404, 'let in');
    }
  });
});

test('count beyond the limit while they last, and end with their time', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 60 }),
      (count, noted) => {
        let now = 0;
        const limiter = createLimiter('events', () => now);
        const rate = { count, seconds: 60 };
        for (let times = 0; times < noted; times += 1) limiter.note('key', rate);
        now = 59_999;
        if (noted >= count) assert.throws(() => limiter.check('key', rate), /limit/);
        else limiter.check('key', rate);
        now = 60_000;
        limiter.check('key', rate);
      },
    ),
  );
});
