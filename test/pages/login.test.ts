/** Logins of browsers: what a session gives, to whom, and until when. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { localAddress } from '../../src/pages/account/login-page.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const admin = { name: 'admin', password: 'open sesame: "<i>"' };
const config = {
  hosted: { anonymous: ['public/*'] },
  accounts: {
    admin: admin.password,
    reader: { password: 'reading is fun', repositories: { 'team/*': 'pull' } },
  },
};
const page = { accept: 'text/html' };

let browser: TestBrowser;
let sluice: Sluice;
before(async () => {
  browser = await startBrowser();
  sluice = await startSluice({ config });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
});

/** Sends the form of a page as a browser does. */
function submit(
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return sluice.fetch(path, {
    method: 'POST',
    redirect: 'manual',
    headers: { ...page, 'sec-fetch-site': 'same-origin', ...headers },
    body: new URLSearchParams(fields),
  });
}

/** Returns the `Cookie` header after a response; empty if the response removed the cookie. */
function cookieOf(response: Response): string {
  const [set = ''] = response.headers.getSetCookie();
  return /^\w+=;/.test(set) ? '' : (set.split(';')[0] ?? '');
}

async function logIn(fields: Readonly<Record<string, string>>): Promise<string> {
  const response = await submit('/view/login', fields);
  assert.equal(response.status, 303, await response.text());
  return cookieOf(response);
}

/** Requests a container of an image that is only here. */
async function requestOne(by = basic(admin.name, admin.password)) {
  const repository = new Repository(sluice, 'public/app', basic(admin.name, admin.password));
  await repository.pushImage('1', [Buffer.from('layer')]);
  const response = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...by,
    },
    body: JSON.stringify({ containerImage: `${sluice.host}/public/app:1` }),
  });
  return (await response.json()) as { containerToken: string };
}

const account = async (cookie: string) =>
  sluice.fetch('/view/account', { redirect: 'manual', headers: { ...page, cookie } });

test('a person logs in with an account, returns to the page, and logs out', async () => {
  await using tab = await browser.open();
  const { page: view } = tab;
  await view.goto(`${sluice.url}/view/login?to=/view/account`);
  await view.getByLabel('Name').fill(admin.name);
  await view.getByLabel('Password').fill(admin.password);
  await view.getByRole('button', { name: 'Log in' }).first().click();
  await view.waitForURL('**/view/account');
  assert.match(await view.locator('main').innerText(), /administrator of this server/);
  assert.equal(await view.locator('header .person').innerText(), 'admin');
  assert.equal(await view.evaluate('document.cookie'), '', 'scripts do not see the cookie');
  await view.getByRole('button', { name: 'Log out' }).click();
  await view.waitForURL(`${sluice.url}/`);
  assert.equal(await view.locator('header .person').innerText(), 'Log in');
});

test('the pages can be read at every width, light and dark', async () => {
  await checkLooks(browser, `${sluice.url}/view/login`, 'login');
});

test('a token of the platform is a login', async () => {
  const token = await newAccessToken(sluice, admin, 'ada@example.org');
  const cookie = await logIn({ token });
  assert.match(await (await account(cookie)).text(), /ada@example\.org/);
  const revoked = await sluice.fetch('/platform/tokens', {
    headers: { authorization: `Bearer ${token}` },
  });
  const { tokens } = (await revoked.json()) as { tokens: { id: number }[] };
  for (const { id } of tokens) {
    await sluice.fetch(`/platform/tokens/${id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${token}` },
    });
  }
  const ended = await account(cookie);
  assert.equal(ended.status, 303, 'a revoked token ends the session');
  assert.equal(cookieOf(ended), '');
});

test('a token of another platform is a login there, and only if the operator lists it', async () => {
  await using other = await startSluice({ config: { accounts: { admin: admin.password } } });
  const platform = `${other.url}/platform`;
  const token = await newAccessToken(other, admin, 'bob@example.org');
  await using user = await startSluice({ config: { ...config, platform: { allow: [platform] } } });
  const send = (fields: Readonly<Record<string, string>>) =>
    user.fetch('/view/login', {
      method: 'POST',
      redirect: 'manual',
      headers: { ...page, 'sec-fetch-site': 'same-origin' },
      body: new URLSearchParams(fields),
    });
  const response = await send({ token, platform });
  assert.equal(response.status, 303);
  const cookie = cookieOf(response);
  const own = await user.fetch('/view/account', { headers: { ...page, cookie } });
  assert.match(await own.text(), /bob@example\.org/);
  assert.equal((await send({ token })).status, 403, 'the platform of this server is another one');
  const unlisted = await send({ token, platform: 'https://evil.example/' });
  assert.equal(unlisted.status, 400);
  assert.match(await unlisted.text(), /does not use the platform evil\.example/);
});

test('a wrong login sets no cookie, and counts', async () => {
  await using other = await startSluice({
    config: { ...config, limits: { logins: '3/hour' } },
  });
  const send = () =>
    other.fetch('/view/login', {
      method: 'POST',
      headers: { ...page, 'sec-fetch-site': 'same-origin' },
      body: new URLSearchParams({ name: 'admin', password: 'wrong' }),
    });
  const statuses: number[] = [];
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const response = await send();
    statuses.push(response.status);
    if (response.status === 403) {
      const text = await response.text();
      assert.match(text, /The name or the password is wrong\./);
      assert.match(text, /name="name" value="admin"/, 'the name need not be entered again');
      assert.doesNotMatch(text, /HTTP basic|value="wrong"/);
    }
    assert.deepEqual(response.headers.getSetCookie(), []);
    assert.equal(response.headers.get('www-authenticate'), null, 'no dialog of the browser');
  }
  assert.equal(statuses[0], 403);
  assert.equal(statuses.at(-1), 429);
});

test('wrong logins of others from the same address do not keep a person from logging out', async () => {
  await using other = await startSluice({ config: { ...config, limits: { logins: '3/hour' } } });
  const send = (path: string, fields: Readonly<Record<string, string>>, cookie = '') =>
    other.fetch(path, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...page, cookie, 'sec-fetch-site': 'same-origin' },
      body: new URLSearchParams(fields),
    });
  const cookie = cookieOf(await send('/view/login', admin));
  const show = (path: string) =>
    other.fetch(path, { redirect: 'manual', headers: { ...page, cookie } });
  let status = 0;
  for (let attempt = 0; attempt < 10 && status !== 429; attempt += 1) {
    ({ status } = await send('/view/login', { name: 'admin', password: 'wrong' }));
  }
  assert.equal((await show('/view/account')).status, 429);
  assert.equal((await show('/view/login')).status, 200);
  const incomplete = await send('/view/login', {}, cookie);
  assert.equal(incomplete.status, 400, 'the form is read');
  const foreign = await other.fetch('/view/logout', {
    method: 'POST',
    headers: { ...page, cookie, 'sec-fetch-site': 'cross-site' },
  });
  assert.equal(foreign.status, 403);
  assert.equal((await show('/view/account')).status, 429, 'the session goes on');
  const ended = await send('/view/logout', {}, cookie);
  assert.equal(ended.status, 303);
  assert.equal(cookieOf(ended), '');
  assert.equal((await show('/view/account')).status, 303, 'the session has ended');
});

test('the APIs do not accept the cookie', async () => {
  const cookie = await logIn(admin);
  const token = 'a'.repeat(12);
  for (const [method, path, status] of [
    ['DELETE', `/container-token/${token}`, 401],
    ['GET', '/v1alpha2/metrics/builds', 401],
    ['GET', '/platform/user-info', 401],
    ['POST', '/v2/team/app/blobs/uploads/', 401],
  ] as const) {
    const headers = { cookie, 'sec-fetch-site': 'same-origin' };
    assert.equal((await sluice.fetch(path, { method, headers })).status, status, path);
  }
});

test('a form of another page, or of an unknown one, changes nothing', async () => {
  const cookie = await logIn(admin);
  for (const headers of [
    { cookie, 'sec-fetch-site': 'cross-site' },
    { cookie, 'sec-fetch-site': 'same-site' },
    { cookie, origin: 'https://evil.example' },
    { cookie, 'sec-fetch-site': '' },
  ]) {
    const { 'sec-fetch-site': site, ...rest } = headers as Record<string, string>;
    const response = await sluice.fetch('/view/logout', {
      method: 'POST',
      redirect: 'manual',
      headers: { ...page, ...rest, ...(site ? { 'sec-fetch-site': site } : {}) },
      body: new URLSearchParams(),
    });
    assert.equal(response.status, 403, JSON.stringify(headers));
  }
  assert.equal((await account(cookie)).status, 200, 'the session goes on');
  const anonymous = await submit('/view/login', admin, { 'sec-fetch-site': 'cross-site' });
  assert.equal(anonymous.status, 403);
  assert.deepEqual(anonymous.headers.getSetCookie(), []);
});

test('an origin that may call the API cannot send forms of pages', async () => {
  for (const allowed of ['https://portal.example.org', '*']) {
    await using open = await startSluice({ config: { ...config, cors: { origins: [allowed] } } });
    const send = (path: string, headers: Readonly<Record<string, string>>) =>
      open.fetch(path, {
        method: 'POST',
        redirect: 'manual',
        headers: { ...page, ...headers },
        body: new URLSearchParams(admin),
      });
    const cookie = cookieOf(await send('/view/login', { 'sec-fetch-site': 'same-origin' }));
    assert.notEqual(cookie, '');
    for (const site of ['same-site', 'cross-site']) {
      const foreign = { origin: 'https://portal.example.org', 'sec-fetch-site': site };
      const login = await send('/view/login', foreign);
      assert.equal(login.status, 403, `a login from a page that is ${site}`);
      assert.deepEqual(login.headers.getSetCookie(), []);
      for (const path of ['/view/logout', '/view/account/tokens']) {
        assert.equal((await send(path, { ...foreign, cookie })).status, 403, `${path}, ${site}`);
      }
    }
    const still = await open.fetch('/view/account', {
      redirect: 'manual',
      headers: { ...page, cookie },
    });
    assert.equal(still.status, 200, 'the session goes on');
  }
});

test('a login gives a new cookie and ends the session before it', async () => {
  const first = await logIn(admin);
  const second = await submit('/view/login', admin, { cookie: first });
  assert.notEqual(cookieOf(second), first);
  assert.equal((await account(first)).status, 303);
  assert.equal((await account(cookieOf(second))).status, 200);
});

test('the cookie is hidden from scripts and other sites, and its value is stored nowhere', async () => {
  const response = await submit('/view/login', admin);
  const [set = ''] = response.headers.getSetCookie();
  assert.match(set, /^sluice_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax$/);
  const database = new Sqlite(`${sluice.data}/sluice.db`, { readonly: true });
  try {
    const rows = database.prepare('SELECT hash, owner, sealed FROM sessions').all();
    assert.ok(rows.length > 0);
    const kept = Buffer.concat(rows.flatMap(row => Object.values(row as Record<string, Buffer>)));
    const value = /=([\w-]{43});/.exec(set)?.[1] ?? '';
    const login = Buffer.from(`${admin.name}:${admin.password}`).toString('base64');
    for (const secret of [value, login, admin.password, Buffer.from(value, 'base64url')]) {
      assert.ok(!kept.includes(secret));
    }
    assert.ok(!sluice.output().includes(value));
  } finally {
    database.close();
  }
});

test('a server that browsers reach by TLS sets a cookie that only it can set', async () => {
  await using secure = await startSluice({
    ...{ config, env: { SLUICE_URL: 'https://images.example.org' } },
  });
  const response = await secure.fetch('/view/login', {
    method: 'POST',
    redirect: 'manual',
    headers: { ...page, 'sec-fetch-site': 'same-origin' },
    body: new URLSearchParams(admin),
  });
  assert.match(response.headers.getSetCookie()[0] ?? '', /^__Host-sluice=.*; Secure$/);
});

test('garbage in cookies and forms is refused or ignored', async () => {
  for (const cookie of [
    'sluice_session=',
    `sluice_session=${'a'.repeat(43)}`,
    ';;=;%00',
    'x'.repeat(8000),
  ]) {
    assert.equal((await account(cookie)).status, 303, cookie.slice(0, 40));
  }
  for (const fields of [
    {},
    { name: 'admin' },
    { name: 'a:b', password: 'c' },
    { token: 'a b' },
    { token: 'x'.repeat(9000) },
  ]) {
    const response = await submit('/view/login', fields as Record<string, string>);
    assert.equal(response.status, 400, JSON.stringify(fields).slice(0, 60));
  }
  const hostile = await submit('/view/login', {
    name: '<script>',
    password: 'x',
    to: '"><script>',
  });
  assert.doesNotMatch(await hostile.text(), /<script>(?!<)/);
});

test('a login leads to addresses of this server only', () => {
  for (const [given, expected] of [
    ['/view/builds/1?x=2#y', '/view/builds/1?x=2'],
    ['//evil.example/', '/'],
    ['/\\evil.example', '/'],
    ['/\t/evil.example', '/'],
    ['https://evil.example/', '/'],
    ['javascript:alert(1)', '/'],
    ['', '/'],
    [undefined, '/'],
  ] as const) {
    assert.equal(localAddress(given), expected, given);
  }
});

test('only the person who made a container request, or an administrator, ends it', async () => {
  const reader = await logIn({ name: 'reader', password: 'reading is fun' });
  const administrator = await logIn(admin);
  const { containerToken } = await requestOne();
  const path = `/view/containers/${containerToken}/end`;
  assert.equal((await submit(path, {})).status, 401);
  assert.equal((await submit(path, {}, { cookie: reader })).status, 403);
  const ended = await submit(path, {}, { cookie: administrator });
  assert.equal(ended.status, 303);
  const isEnded = async (token: string) =>
    (await sluice.fetch(`/v1alpha2/container/${token}/status`)).status === 404;
  assert.ok(await isEnded(containerToken));

  const asReader = basic('reader', 'reading is fun');
  const own = await requestOne(asReader);
  const page = `/view/containers/${own.containerToken}`;
  const html = { accept: 'text/html' };
  const see = async (cookie?: string) =>
    (await sluice.fetch(page, { headers: cookie ? { ...html, cookie } : html })).text();
  assert.match(await see(reader), /End this container/);
  assert.doesNotMatch(await see(), /End this container/);
  assert.equal((await submit(`${page}/end`, {})).status, 401);
  assert.equal((await submit(`${page}/end`, {}, { cookie: reader })).status, 303);
  assert.ok(await isEnded(own.containerToken));

  const other = await requestOne(asReader);
  const remove = (headers: Readonly<Record<string, string>>) =>
    sluice.fetch(`/container-token/${other.containerToken}`, { method: 'DELETE', headers });
  assert.equal((await remove({})).status, 401);
  assert.equal((await remove(asReader)).status, 200);
  assert.ok(await isEnded(other.containerToken));
});

test('a page that requires a login says so in the words of people', async () => {
  const response = await sluice.fetch('/view/usage', { headers: page });
  assert.equal(response.status, 401);
  const text = await response.text();
  assert.match(text, /This requires a login with the right to see or do it\./);
  assert.doesNotMatch(text, /HTTP basic/);
});
