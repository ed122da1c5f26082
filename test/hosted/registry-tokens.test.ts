import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SignJWT } from 'jose';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import {
  type Authenticator,
  createAuthenticator,
  createRegistryTokens,
  type RegistryTokens,
} from '../../src/hosted/authenticator.ts';

const key = Buffer.alloc(32, 7);
const minute = 60_000;
const access = [{ type: 'repository', name: 'builds/one', actions: ['pull', 'push'] }] as const;

function authenticatorOf(
  list: Record<string, Account>,
  anonymous: readonly string[],
  tokens: RegistryTokens,
): Authenticator {
  const accounts = new Map(Object.entries(list));
  const accountCheck = createAccountCheck(accounts);
  return createAuthenticator({ accounts, accountCheck, hasAccountFiles: false, anonymous, tokens });
}

test('a token contains its owner and its rights', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const text = await tokens.issue({ account: 'ada', access }, minute);
  for (let at = 0; at < 2; at += 1) {
    const { expiresAt = 0, ...token } = (await tokens.read(text)) ?? {};
    assert.deepEqual(token, { account: 'ada', access });
    assert.ok(Math.abs(expiresAt - Date.now() - minute) <= minute / 2, String(expiresAt));
  }
  const anonymous = await tokens.read(await tokens.issue({ access: [] }, minute));
  assert.deepEqual([anonymous?.account, anonymous?.access], [undefined, []]);
});

test('a changed, foreign or expired token is invalid', async t => {
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

test('a token has the claims of distribution, and an end in whole seconds', async t => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const second = 1_900_000_000_000;
  t.mock.timers.enable({ apis: ['Date'], now: second + 1 });
  const claimsOf = (text: string) =>
    JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString());
  const usual = { iss: 'images.example.com', aud: 'images.example.com', iat: second / 1000 };
  const catalog = { type: 'registry', name: 'catalog', actions: ['*'] };
  assert.deepEqual(
    claimsOf(await tokens.issue({ account: 'ada', user: 'u', access, mayList: true }, 1e7)),
    { ...usual, sub: 'ada', user: 'u', access: [...access, catalog], exp: second / 1000 + 10_000 },
  );
  const least = claimsOf(await tokens.issue({ access: [] }, 1));
  assert.deepEqual(least, { ...usual, sub: '', access: [], exp: second / 1000 + 1 });
});

test('a token of this key for another service, or of another kind, is invalid', async () => {
  const long = Buffer.alloc(64, 7);
  const host = 'images.example.com';
  const tokens = createRegistryTokens(long, host);
  const signed = (issuer: string, audience: string, alg: string) =>
    new SignJWT({ access })
      .setProtectedHeader({ alg })
      .setIssuer(issuer)
      .setAudience(audience)
      .setExpirationTime('1h')
      .sign(long);
  assert.ok(await tokens.read(await signed(host, host, 'HS256')));
  for (const [issuer, audience, alg] of [
    ['other.example.com', host, 'HS256'],
    [host, 'other.example.com', 'HS256'],
    [host, host, 'HS512'],
  ] as const) {
    assert.equal(await tokens.read(await signed(issuer, audience, alg)), undefined);
  }
});

test('a builder gets a token for one repository, and no other rights', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const authenticator = authenticatorOf({}, ['public/*'], tokens);
  const rights = await authenticator.withToken(await tokens.issue({ access }, minute));
  assert.deepEqual(rights?.('builds/one'), ['pull', 'push']);
  assert.deepEqual(rights?.('builds/two'), []);
  assert.deepEqual(rights?.('builds/one/more'), []);
  // BuildKit is given it as a password.
  const text = await tokens.issue({ access }, minute);
  const asPassword = await authenticator.withPassword('token', text);
  assert.deepEqual(asPassword?.('builds/one'), ['pull', 'push']);
  assert.equal(await authenticator.withPassword('token', 'nonsense'), undefined);
});

test('a token never exceeds the current rights of its account', async () => {
  const tokens = createRegistryTokens(key, 'images.example.com');
  const text = await tokens.issue({ account: 'ada', access }, minute);
  const authenticatorOfAda = (repositories: Record<string, 'pull' | 'push'>) =>
    authenticatorOf({ ada: { password: 'x', repositories } }, [], tokens);
  const full = await authenticatorOfAda({ 'builds/*': 'push' }).withToken(text);
  assert.deepEqual(full?.('builds/one'), ['pull', 'push']);
  const less = await authenticatorOfAda({ 'builds/*': 'pull' }).withToken(text);
  assert.deepEqual(less?.('builds/one'), ['pull']);
  const gone = authenticatorOf({}, [], tokens);
  assert.equal(await gone.withToken(text), undefined);
});
