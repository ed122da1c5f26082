import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type {
  ChannelCredentials,
  ChannelSettings,
} from '../../../src/conda/channels/channel-settings.ts';
import { Fault } from '../../../src/foundation/fault.ts';
import { readAll } from '../../../src/upstream/transport/upstream-response.ts';
import { type ChannelScript, startScriptedChannel } from '../../world/scripted-channel.ts';
import { accessTo, listed } from '../solving/solver-world.ts';

const signal = AbortSignal.timeout(300_000);

/** Returns a function that reads a file of a channel as text. */
function reader(t: TestContext, channels: readonly ChannelSettings[]) {
  const access = accessTo(t, channels);
  return async (url: string) => {
    const { body } = await access.open(url, { signal });
    return (await readAll(body, 1000, url)).toString();
  };
}

/** Serves one text to those who send this header, and notes the paths of all requests. */
const onlyWith =
  (authorization: string): ChannelScript =>
  ({ headers }, response) => {
    if (headers.authorization === authorization) return 'welcome';
    response.writeHead(401).end();
    return Promise.resolve();
  };

const basic = `Basic ${Buffer.from('ann:secret').toString('base64')}`;
const password: ChannelCredentials = { kind: 'password', username: 'ann', password: 'secret' };
const token: ChannelCredentials = { kind: 'token', token: 'tk-1' };

test('names are channels of the public host, or those that are listed', t => {
  const access = accessTo(t, [
    listed('https://conda.example/team', { keys: ['team', 'https://old.example/team'] }),
  ]);
  for (const [channel, url] of [
    ['conda-forge', 'https://conda.anaconda.org/conda-forge'],
    ['conda-forge/label/dev', 'https://conda.anaconda.org/conda-forge/label/dev'],
    ['main', 'https://repo.anaconda.com/pkgs/main'],
    ['pkgs/r', 'https://repo.anaconda.com/pkgs/r'],
    ['team', 'https://conda.example/team'],
    ['https://old.example/team/', 'https://conda.example/team'],
    ['https://ann:pw@other.example/t/tk-1/x/', 'https://other.example/x'],
  ] as const) {
    assert.equal(access.baseUrl(channel), url);
  }
  assert.throws(() => access.baseUrl('file:///opt/channel'), Fault);
});

test('what is below a listed channel belongs to it, and to the longest name that is listed', t => {
  const access = accessTo(t, [
    listed('https://conda.example/team', { keys: ['team'] }),
    listed('https://dev.example/x', { keys: ['team/label/dev'] }),
    listed('https://new.example/c', { keys: ['https://old.example/c'] }),
  ]);
  for (const [channel, url] of [
    ['team/label/main', 'https://conda.example/team/label/main'],
    ['team/sub', 'https://conda.example/team/sub'],
    ['team/label/dev', 'https://dev.example/x'],
    ['team/label/dev/y', 'https://dev.example/x/y'],
    ['team2', 'https://conda.anaconda.org/team2'],
    ['teams/sub', 'https://conda.anaconda.org/teams/sub'],
    ['https://old.example/c/label/dev', 'https://new.example/c/label/dev'],
  ] as const) {
    assert.equal(access.baseUrl(channel), url);
  }
});

test('`defaults` is two channels unless it is listed, and each of them can be listed', t => {
  const urls = (keys: readonly string[]) =>
    accessTo(t, [listed('https://mirror.example/x', { keys })])
      .channelsOf('defaults')
      .map(({ url }) => url);
  const main = 'https://repo.anaconda.com/pkgs/main';
  const r = 'https://repo.anaconda.com/pkgs/r';
  assert.deepEqual(urls(['other']), [main, r]);
  assert.deepEqual(urls(['defaults']), ['https://mirror.example/x']);
  assert.deepEqual(urls(['main']), ['https://mirror.example/x', r]);
  assert.deepEqual(urls(['pkgs/main']), ['https://mirror.example/x', r]);
  assert.deepEqual(urls(['pkgs/r']), [main, 'https://mirror.example/x']);
});

test('a channel with a login gets its name and password', async t => {
  const channel = await startScriptedChannel(t, onlyWith(basic));
  const read = reader(t, [listed(`${channel.url}/c`, { credentials: password })]);
  assert.equal(await read(`${channel.url}/c/noarch/x`), 'welcome');
});

test('credentials are not for other channels of the same host', async t => {
  const channel = await startScriptedChannel(t, onlyWith(basic));
  const read = reader(t, [
    listed(`${channel.url}/c`, { credentials: password }),
    listed(`${channel.url}/d`),
  ]);
  await assert.rejects(read(`${channel.url}/d/noarch/x`), /answered 401/);
  await assert.rejects(read(`${channel.url}/cd/noarch/x`), /closed network address/);
});

test('a token is sent as a bearer token', async t => {
  const channel = await startScriptedChannel(t, onlyWith('Bearer tk-1'));
  const read = reader(t, [listed(`${channel.url}/c`, { credentials: token })]);
  assert.equal(await read(`${channel.url}/c/noarch/x`), 'welcome');
  assert.deepEqual(channel.requests, ['/c/noarch/x']);
});

test('a token goes into the path where the channel wants it there, and then always', async t => {
  const channel = await startScriptedChannel(t, ({ url }) =>
    url.startsWith('/t/tk-1/c/') ? 'welcome' : undefined,
  );
  const read = reader(t, [listed(`${channel.url}/c`, { credentials: token })]);
  assert.equal(await read(`${channel.url}/c/noarch/x`), 'welcome');
  assert.equal(await read(`${channel.url}/c/noarch/y`), 'welcome');
  assert.deepEqual(channel.requests, ['/c/noarch/x', '/t/tk-1/c/noarch/x', '/t/tk-1/c/noarch/y']);
});

test('a token goes where the configuration has it in the path', async t => {
  const channel = await startScriptedChannel(t, ({ url }) =>
    url === '/conda/t/tk-1/c/noarch/x' ? 'welcome' : undefined,
  );
  const credentials = { kind: 'path-token', token: 'tk-1', above: '/conda' } as const;
  const read = reader(t, [listed(`${channel.url}/conda/c`, { credentials })]);
  assert.equal(await read(`${channel.url}/conda/c/noarch/x`), 'welcome');
});

test('no message holds a secret', async t => {
  const channel = await startScriptedChannel(t, () => undefined);
  const read = reader(t, [
    listed(`${channel.url}/c`, { credentials: token }),
    listed(`${channel.url}/d`, { credentials: { kind: 'path-token', token: 'tk-1' } }),
  ]);
  for (const path of ['c', 'd']) {
    await assert.rejects(read(`${channel.url}/${path}/noarch/x`), (error: unknown) => {
      assert.ok(error instanceof Fault);
      return !error.message.includes('tk-1') && !String(error.stack).includes('tk-1');
    });
  }
  assert.ok(channel.requests.some(path => path.includes('/t/tk-1/')));
});

test('mirrors are asked first, and the channel itself when they fail', async t => {
  const first = await startScriptedChannel(t, () => undefined);
  const second = await startScriptedChannel(t, ({ url }) => (url.endsWith('/b') ? 'B' : undefined));
  const channel = await startScriptedChannel(t, () => 'own');
  const mirrors = [`${first.url}/m`, `${second.url}/n`];
  const read = reader(t, [listed(`${channel.url}/c`, { mirrors })]);
  assert.equal(await read(`${channel.url}/c/noarch/a`), 'own');
  assert.equal(await read(`${channel.url}/c/noarch/b`), 'B');
  assert.deepEqual(first.requests, ['/m/noarch/a', '/m/noarch/b']);
  await first.stop();
  assert.equal(await read(`${channel.url}/c/noarch/b`), 'B');
});

test('a mirror on another host gets its own credentials, not those of the channel', async t => {
  const seen: (string | undefined)[] = [];
  const mirror = await startScriptedChannel(t, ({ headers }) => {
    seen.push(headers.authorization);
    return 'mirror';
  });
  const channel = await startScriptedChannel(t, () => 'own');
  const settings = listed(`${channel.url}/c`, {
    mirrors: [`${mirror.url}/m`],
    credentials: password,
  });
  assert.equal(await reader(t, [settings])(`${channel.url}/c/x`), 'mirror');
  const own = listed(`${mirror.url}/m`, { credentials: token });
  assert.equal(await reader(t, [settings, own])(`${channel.url}/c/x`), 'mirror');
  assert.deepEqual(seen, [undefined, 'Bearer tk-1']);
});

test('a channel at a closed address is refused unless it is listed so', async t => {
  const channel = await startScriptedChannel(t, () => 'secret of the network');
  const unlisted = reader(t, []);
  await assert.rejects(unlisted(`${channel.url}/c/x`), (error: unknown) => {
    assert.ok(error instanceof Fault);
    assert.equal(error.apiStatus, 400);
    assert.match(error.message, /closed network address .* allowPrivateAddress/);
    return true;
  });
  const forbidden = reader(t, [listed(`${channel.url}/c`, { allowPrivateAddress: false })]);
  await assert.rejects(forbidden(`${channel.url}/c/x`), /closed network address/);
  const other = reader(t, [listed(`${channel.url}/c`)]);
  await assert.rejects(other(`${channel.url}/admin/x`), /closed network address/);
  await assert.rejects(other(`${channel.url}/c/../admin/x`), /closed network address/);
  assert.deepEqual(channel.requests, []);
});

test('a channel may redirect within its own host, and not to another closed address', async t => {
  const inside = await startScriptedChannel(t, () => 'secret of the network');
  const channel = await startScriptedChannel(t, async ({ url }, response) => {
    const location = url === '/c/own' ? '/files/own' : `${inside.url}/x`;
    if (url === '/files/own') response.writeHead(200).end('own');
    else response.writeHead(302, { location }).end();
  });
  const read = reader(t, [listed(`${channel.url}/c`)]);
  assert.equal(await read(`${channel.url}/c/own`), 'own');
  await assert.rejects(
    read(`${channel.url}/c/other`),
    /redirects to .*closed network address|closed/,
  );
  assert.deepEqual(inside.requests, []);
});

test('a channel that redirects for ever is refused', async t => {
  const channel = await startScriptedChannel(t, async ({ url }, response) => {
    response.writeHead(302, { location: `${url}x` }).end();
  });
  const read = reader(t, [listed(channel.url)]);
  await assert.rejects(read(`${channel.url}/c/x`), /redirects more than 5 times/);
});

test('a channel that does not answer, or with an error, is refused with its name', async t => {
  const channel = await startScriptedChannel(t, async (_, response) => {
    response.writeHead(500).end();
  });
  const read = reader(t, [listed(channel.url)]);
  await assert.rejects(
    read(`${channel.url}/c/x`),
    /The channel .* answered 500 for c\/x: try later/,
  );
  await channel.stop();
  await assert.rejects(read(`${channel.url}/c/x`), (error: unknown) => {
    assert.ok(error instanceof Fault);
    assert.equal(error.apiStatus, 400);
    assert.match(error.message, /^The channel .* refused the connection \(asked for c\/x\)/);
    return true;
  });
});
