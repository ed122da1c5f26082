import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SignJWT } from 'jose';
import { createKeeper } from '../../src/hosted/keeper.ts';
import { createRegistryTokens } from '../../src/hosted/registry-tokens.ts';

const key = Buffer.alloc(32, 7);
const minute = 60_000;
const access = [{ type: 'repository', name: 'builds/one', actions: ['pull', 'push'] }] as const;

test('a token says who it was made for and what it allows', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const text = await tokens.issue({ account: 'ada', access }, minute);
  for (let at = 0; at < 2; at += 1) {
    assert.deepEqual(await tokens.read(text), { account: 'ada', access });
  }
  const anonymous = await tokens.issue({ access: [] }, minute);
  assert.deepEqual(await tokens.read(anonymous), { access: [] });
});

test('a token that was changed, is of another service or key, or has ended, is none', async t => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const text = await tokens.issue({ access }, minute);
  const [head = '', claims = '', signature = ''] = text.split('.');
  const more = Buffer.from(
    Buffer.from(claims, 'base64url').toString().replace('builds/one', 'builds/two'),
  ).toString('base64url');
  const none = Buffer.from('{"alg":"none"}').toString('base64url');
  const others = [
    createRegistryTokens(Buffer.alloc(32, 8), 'images.example.com'),
    createRegistryTokens(key, 'other.example.com'),
  ];
  const foreign = await Promise.all(others.map(other => other.issue({ access }, minute)));
  const endless = await new SignJWT({ access })
    .setProtectedHeader({ alg: 'HS512' })
    .setIssuer('images.example.com')
    .setAudience('images.example.com')
    .sign(Buffer.alloc(64, 7));
  for (const wrong of [
    `${head}.${more}.${signature}`,
    `${none}.${claims}.`,
    `${head}.${claims}.`,
    ...foreign,
    endless,
    'nonsense',
    '',
  ]) {
    assert.equal(await tokens.read(wrong), undefined, wrong);
  }
  const { timers } = t.mock;
  const second = 1_900_000_000_000;
  timers.enable({ apis: ['Date'], now: second });
  const short = await tokens.issue({ access }, 1);
  timers.setTime(second + 999);
  assert.ok(await tokens.read(short), 'times are whole seconds');
  timers.setTime(second + 1000);
  assert.equal(await tokens.read(short), undefined);
});

test('a builder gets a token for one repository, which is good for nothing else', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const keeper = createKeeper(new Map(), ['public/*'], tokens);
  const rights = await keeper.withToken(await tokens.issue({ access }, minute));
  assert.deepEqual(rights?.('builds/one'), ['pull', 'push']);
  assert.deepEqual(rights?.('builds/two'), []);
  assert.deepEqual(rights?.('builds/one/more'), []);
  // BuildKit is given it as a password.
  const text = await tokens.issue({ access }, minute);
  const asPassword = await keeper.withPassword('token', text);
  assert.deepEqual(asPassword?.('builds/one'), ['pull', 'push']);
  assert.equal(await keeper.withPassword('token', 'nonsense'), undefined);
});

test('a token is worth no more than its account is now', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const text = await tokens.issue({ account: 'ada', access }, minute);
  const keeperOf = (repositories: Record<string, 'pull' | 'push'>) =>
    createKeeper(new Map([['ada', { password: 'x', repositories }]]), [], tokens);
  const full = await keeperOf({ 'builds/*': 'push' }).withToken(text);
  assert.deepEqual(full?.('builds/one'), ['pull', 'push']);
  const less = await keeperOf({ 'builds/*': 'pull' }).withToken(text);
  assert.deepEqual(less?.('builds/one'), ['pull']);
  const gone = createKeeper(new Map(), [], tokens);
  assert.equal(await gone.withToken(text), undefined);
});
