/** What users of the built-in platform see and change on the page of their login. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { basic } from '../hosted/push-client.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, type OpenTab, startBrowser, type TestBrowser } from './browser-world.ts';

const admin = { name: 'admin', password: 'open sesame' };
const hostile = '"><script>x</script> \' <img src=x onerror=x>';

let browser: TestBrowser;
let registry: Registry;
let sluice: Sluice;
let token: string;
before(async () => {
  browser = await startBrowser();
  registry = await startRegistry({ auth: 'basic' });
  sluice = await startSluice({
    config: {
      accounts: { admin: admin.password },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
  token = await newAccessToken(sluice, admin, 'ada@example.org');
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await registry?.stop();
});

async function openAccount(width = 1280): Promise<OpenTab> {
  const tab = await browser.open({ width });
  await tab.page.goto(`${sluice.url}/view/login?to=/view/account`);
  await tab.page.getByLabel('Access token of').fill(token);
  await tab.page.getByRole('button', { name: 'Log in' }).last().click();
  await tab.page.waitForURL('**/view/account');
  return tab;
}

/** Adds a workspace with members, and returns its number. */
async function addWorkspace(name: string, members: readonly string[]): Promise<number> {
  const post = async (path: string, body: object) => {
    const response = await sluice.fetch(`/platform/workspaces${path}`, {
      method: 'POST',
      headers: { ...basic(admin.name, admin.password), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    assert.ok(response.ok, await response.clone().text());
    return (await response.json()) as { workspace?: { id: number } };
  };
  const { workspace } = await post('', { name });
  assert.ok(workspace);
  for (const user of members) await post(`/${workspace.id}/members`, { user });
  return workspace.id;
}

const whoIs = (value: string) =>
  sluice.fetch('/platform/user-info', { headers: { authorization: `Bearer ${value}` } });

test('a user creates an access token, sees it once, and revokes it', async () => {
  await using tab = await openAccount();
  const { page } = tab;
  await page.getByText('Create an access token').click();
  await page.locator('#token-name').fill('pipeline');
  await page.getByRole('button', { name: 'Create' }).click();
  const value = await page.locator('section[role=status] pre').innerText();
  assert.equal((await whoIs(value)).status, 200);
  await page.goto(`${sluice.url}/view/account`);
  assert.ok(!(await page.content()).includes(value));
  await page.getByRole('button', { name: 'Revoke pipeline' }).click();
  await page.getByRole('button', { name: 'Revoke pipeline' }).waitFor({ state: 'detached' });
  assert.notEqual((await whoIs(value)).status, 200);
});

test('a token of the page does what is marked, and only in its repositories', async () => {
  await using tab = await openAccount();
  const { page } = tab;
  const create = async (name: string, marks: readonly string[], repositories = '') => {
    await page.goto(`${sluice.url}/view/account`);
    await page.getByText('Create an access token').click();
    await page.locator('#token-name').fill(name);
    for (const box of await page.getByRole('checkbox').all()) {
      await box.setChecked(marks.includes((await box.getAttribute('value')) ?? ''));
    }
    await page.locator('#token-repositories').fill(repositories);
    await page.getByRole('button', { name: 'Create' }).click();
  };
  await create('narrow', ['pull', 'request'], 'team/*, quay.io/team/*');
  const value = await page.locator('section[role=status] pre').innerText();
  const { tokenRights } = (await (await whoIs(value)).json()) as { tokenRights: object };
  assert.deepEqual(tokenRights, {
    scopes: ['pull', 'request'],
    repositories: ['team/*', 'quay.io/team/*'],
  });
  const row = page.getByRole('row', { name: /narrow/ });
  assert.match(await row.innerText(), /pull, request of team\/\*, quay\.io\/team\/\*/);
  for (const [name, marks, repositories, why] of [
    ['nothing', [], '', /name at least one scope/],
    ['both', ['manage'], 'team/*', /cannot have the scope 'manage'/],
  ] as const) {
    await create(name, marks, repositories);
    assert.match(await page.getByRole('alert').innerText(), why);
    tab.expectProblem(/400/);
  }
});

test('a name that is taken is refused on the page', async () => {
  await using tab = await openAccount();
  await tab.page.getByText('Create an access token').click();
  await tab.page.locator('#token-name').fill('test');
  const reply = tab.page.waitForResponse(response => response.request().method() === 'POST');
  await tab.page.getByRole('button', { name: 'Create' }).click();
  assert.equal((await reply).status(), 409);
  assert.match(await tab.page.getByRole('alert').innerText(), /already has an access token 'test'/);
  // The browser writes a response with an error status to its console.
  tab.expectProblem(/409/);
});

test('a form with a life that is not a whole number of days creates no token', async () => {
  for (const days of ['0.3', '1e3', '-1', ' 30', '100000', 'soon', 'NaN']) {
    const response = await sluice.fetch('/view/account/tokens', {
      method: 'POST',
      headers: { accept: 'text/html', authorization: `Bearer ${token}` },
      body: new URLSearchParams({ name: `life ${days}`, days }),
    });
    assert.equal(response.status, 400, days);
    assert.match(await response.text(), /Enter a whole number of days/);
  }
});

test('no token outlives the one that created it, and the page offers no such life', async () => {
  const send = (path: string, as: string, body: object | URLSearchParams) =>
    sluice.fetch(path, {
      method: 'POST',
      headers: {
        ...{ accept: 'text/html', authorization: `Bearer ${as}` },
        ...(body instanceof URLSearchParams ? {} : { 'content-type': 'application/json' }),
      },
      body: body instanceof URLSearchParams ? body : JSON.stringify(body),
    });
  const expiration = new Date(Date.now() + 40 * 24 * 3_600_000).toISOString();
  const made = await send('/platform/tokens', token, { name: 'short', expiration });
  const { accessKey } = (await made.json()) as { accessKey: string };
  const shown = await sluice.fetch('/view/account', {
    headers: { accept: 'text/html', authorization: `Bearer ${accessKey}` },
  });
  const options = [...(await shown.text()).matchAll(/<option value="(\d*)">([^<]*)</g)];
  assert.deepEqual(
    options.map(([, value, text]) => [value, text]),
    [
      ['30', 'in 30 days'],
      ['', `with the token of this login, ${expiration.slice(0, 10)}`],
    ],
  );
  const later = new URLSearchParams({ name: 'later', days: '365', scope: 'pull' });
  const refused = await send('/view/account/tokens', accessKey, later);
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /cannot create one that expires later/);
  const same = new URLSearchParams({ name: 'same', days: '', scope: 'pull' });
  assert.equal((await send('/view/account/tokens', accessKey, same)).status, 200);
  const list = await sluice.fetch('/platform/tokens', {
    headers: { authorization: `Bearer ${token}` },
  });
  const { tokens } = (await list.json()) as { tokens: { name: string; expiration: string }[] };
  const ends = tokens.find(({ name }) => name === 'same')?.expiration ?? '';
  assert.equal(ends.slice(0, 19), expiration.slice(0, 19));
});

test('credentials are kept only if the registry accepts them', async () => {
  await using tab = await openAccount();
  const { page } = tab;
  const add = async (password: string) => {
    await page.getByText('Add credentials').click();
    await page.getByLabel('Registry', { exact: true }).fill(registry.host);
    await page.getByLabel('User name').fill(registry.username);
    await page.getByLabel('Password or token').fill(password);
    await page.getByRole('button', { name: 'Check and add' }).click();
  };
  await add('wrong');
  assert.match(await page.getByRole('alert').innerText(), /does not accept this user name/);
  tab.expectProblem(/400/);
  assert.equal(await page.getByRole('button', { name: 'Remove' }).count(), 0);
  await add(registry.password);
  const remove = page.getByRole('button', { name: `Remove ${registry.host}` });
  await remove.waitFor();
  assert.ok(!(await page.content()).includes(registry.password));
  await remove.click();
  await remove.waitFor({ state: 'detached' });
});

test('names cannot leave their place in the page, and others cannot change what is not theirs', async () => {
  const send = (path: string, as: string, fields: Readonly<Record<string, string>> = {}) =>
    sluice.fetch(path, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        ...{ accept: 'text/html', 'sec-fetch-site': 'same-origin' },
        authorization: `Bearer ${as}`,
      },
      body: new URLSearchParams(fields),
    });
  const made = await send('/view/account/tokens', token, {
    ...{ name: hostile, scope: 'pull', repositories: 'team/* quay.io/"><img' },
  });
  assert.equal(made.status, 200, 'the name is accepted');
  const shown = await made.text();
  assert.match(shown, /&lt;script&gt;x/);
  assert.doesNotMatch(shown, /<script>x|<img src=x/);
  // These are refused, and the page does not repeat them.
  for (const name of ['a\u202eb', 'a\u0000b', `${hostile}${'x'.repeat(10_000)}`]) {
    assert.equal((await send('/view/account/tokens', token, { name })).status, 400);
  }
  const list = await sluice.fetch('/platform/tokens', {
    headers: { authorization: `Bearer ${token}` },
  });
  const { tokens } = (await list.json()) as { tokens: { id: number }[] };
  const other = await newAccessToken(sluice, admin, 'eve@example.org');
  for (const { id } of tokens) {
    assert.equal((await send(`/view/account/tokens/${id}/revoke`, other)).status, 404);
  }
  assert.equal((await send('/view/account/credentials/0123/remove', other)).status, 404);
  const asAccount = await sluice.fetch('/view/account/tokens', {
    method: 'POST',
    headers: { accept: 'text/html', ...basic(admin.name, admin.password) },
    body: new URLSearchParams({ name: 'x' }),
  });
  assert.equal(asAccount.status, 403);
});

test('a member sees the name of a workspace, and the other members only as an administrator', async () => {
  const mate = await newAccessToken(sluice, admin, 'mate@example.org');
  const id = await addWorkspace('laboratory', ['ada@example.org', 'mate@example.org']);
  const headers = { authorization: `Bearer ${mate}` };
  const shown = await sluice.fetch('/view/account', {
    headers: { ...headers, accept: 'text/html' },
  });
  const text = await shown.text();
  assert.match(text, /laboratory/);
  assert.doesNotMatch(text, /ada@example/);
  const api = await sluice.fetch(`/platform/workspaces/${id}/members`, { headers });
  assert.equal(api.status, 403, 'the API refuses the same person');
});

test('an administrator makes a workspace with members, who share credentials', async () => {
  await newAccessToken(sluice, admin, 'bob@example.org');
  await using tab = await browser.open({ headers: basic(admin.name, admin.password) });
  const { page } = tab;
  await page.goto(`${sluice.url}/view/account`);
  await page.getByLabel('New workspace').fill('genomics');
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('heading', { name: 'Workspace genomics' }).waitFor();
  for (const user of ['ada@example.org', 'bob@example.org']) {
    await page.getByLabel('New member').fill(user);
    await page.getByRole('button', { name: 'Add' }).click();
    await page.getByRole('cell', { name: user, exact: true }).waitFor();
  }
  await page.getByLabel('New member').fill('nobody@example.org');
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('alert').waitFor();
  tab.expectProblem(/404/);
  await checkLooks(browser, page.url().replace(/\/members$/, ''), 'workspace', undefined, {
    headers: basic(admin.name, admin.password),
  });
  await page.getByRole('button', { name: 'Remove bob@example.org' }).click();
  await page.getByRole('button', { name: 'Remove bob' }).waitFor({ state: 'detached' });

  await using own = await openAccount();
  await own.page.getByText('Add credentials').click();
  await own.page.getByLabel('Registry', { exact: true }).fill(registry.host);
  await own.page.getByLabel('User name').fill(registry.username);
  await own.page.getByLabel('Password or token').fill(registry.password);
  await own.page.getByLabel('Who may use them').selectOption('members of genomics');
  await own.page.getByRole('button', { name: 'Check and add' }).click();
  await own.page.getByRole('row', { name: new RegExp(`${registry.host}.*genomics`) }).waitFor();
  await own.page.getByRole('button', { name: `Remove ${registry.host}` }).click();
  await own.page
    .getByRole('row', { name: /genomics/ })
    .filter({ hasText: registry.host })
    .waitFor({
      state: 'detached',
    });
  const audit = await sluice.fetch('/platform/audit', {
    headers: basic(admin.name, admin.password),
  });
  const { entries } = (await audit.json()) as { entries: Record<string, string>[] };
  assert.deepEqual(
    entries.slice(0, 2).map(({ actor, action, target }) => [actor, action, target]),
    ['credentials.remove', 'credentials.add'].map(action => [
      'user ada@example.org',
      action,
      `'${registry.host}' for ${registry.host} of workspace genomics`,
    ]),
  );
  for (const path of ['/view/account/workspaces/1', '/view/account/workspaces/999']) {
    const response = await sluice.fetch(path, {
      headers: { accept: 'text/html', authorization: `Bearer ${token}` },
    });
    assert.ok([401, 403].includes(response.status), `${response.status}`);
  }
});

test('names of credentials from elsewhere stay texts', async () => {
  const added = await sluice.fetch('/platform/credentials', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      credentials: {
        ...{ name: hostile, provider: 'container-reg' },
        keys: { registry: 'registry.example.org', userName: hostile, password: 'x' },
      },
    }),
  });
  assert.ok(added.ok, await added.text());
  const shown = await sluice.fetch('/view/account', {
    headers: { accept: 'text/html', authorization: `Bearer ${token}` },
  });
  const text = await shown.text();
  assert.equal(text.split('&lt;script&gt;x').length, 6, 'token, credentials, their buttons');
  assert.doesNotMatch(text, /<script>x|<img src=x/);
});

test('the page can be read at every width, light and dark', async () => {
  const headers = { authorization: `Bearer ${token}` };
  await checkLooks(
    browser,
    `${sluice.url}/view/account`,
    'account',
    async page => {
      for (const one of await page.locator('details > summary').all()) await one.click();
    },
    { headers },
  );
});
