/** The served names of an image are listed and ended, by users their own ones, by administrators all. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { admin, administered } from '../hosted/push-client.ts';
import { assertSuccess } from '../integration/served.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

interface Listed {
  readonly id: string;
  readonly image: string;
  readonly user?: string;
}

suite('live names', { concurrency: 1 }, () => {
  let sluice: Sluice;
  let busybox: Pushed;
  let other: Pushed;
  let token: string;

  before(async () => {
    sluice = await startSluice({
      config: { ...administered, hosted: { anonymous: ['corpus/*'] } },
    });
    const account = { name: 'admin', password: 'secret' };
    const target = { url: sluice.url, host: sluice.host, username: 'admin', password: 'secret' };
    const images = await pushCorpus(target, ['busybox:oci', 'cfg:full']);
    [busybox, other] = ['busybox:oci', 'cfg:full'].map(name => images.get(name)) as [
      Pushed,
      Pushed,
    ];
    token = await newAccessToken(sluice, account, 'ada@example.org');
  });
  after(() => sluice?.stop());

  const ask = async (image: Pushed, platformAccessToken?: string) => {
    const containerImage = image.reference;
    const { targetImage } = await sluice.request({ containerImage, platformAccessToken });
    assert.equal(await pullStatus(targetImage, image), 200);
    return targetImage;
  };
  const pullStatus = async (name: string, { digest }: Pushed) =>
    (await call(sluice.at(name, `manifests/${digest}`))).status;
  const run = async (args: readonly string[], login: Record<string, string>) =>
    JSON.parse(
      assertSuccess(
        await sluiceCommand(['containers', ...args, '--json'], {
          SLUICE_SERVER: sluice.url,
          ...login,
        }),
      ),
    );
  const listed = async (args: readonly string[], login: Record<string, string>) =>
    (await run(['list', ...args], login)).containers as readonly Listed[];
  const bearer = () => ({ authorization: `Bearer ${token}` });
  const ofAda = () => ({ SLUICE_TOKEN: token });
  const ofAdmin = { SLUICE_ACCOUNT: 'admin:secret' };

  test('a user sees and ends the own ones of an image, an administrator all of them', async () => {
    const names = [await ask(busybox), await ask(busybox, token), await ask(other, token)];
    const [strange = '', own = '', ofOther = ''] = names;
    const repository = busybox.reference.replace(/:[^:/]*$/, '');

    assert.equal((await listed([], ofAda())).length, 2);
    for (const image of [busybox.reference, repository, busybox.digest]) {
      const [found, ...more] = await listed([image], ofAda());
      assert.deepEqual([found?.image, more], [busybox.reference, []]);
      assert.match(found?.user ?? '', / 1$/);
      assert.equal((await listed([image], ofAdmin)).length, 2);
    }
    assert.deepEqual(await listed([`${repository}:other`], ofAdmin), []);
    const shown = JSON.stringify(await listed([], ofAdmin));
    for (const name of names) assert.ok(!shown.includes(name.split('/')[2] ?? ''), 'no token');

    assert.deepEqual(await run(['end', busybox.digest], ofAda()), { ended: 1 });
    assert.equal(await pullStatus(own, busybox), 404);
    assert.equal(await pullStatus(strange, busybox), 200);
    assert.deepEqual(await run(['end', repository], ofAdmin), { ended: 1 });
    assert.equal(await pullStatus(strange, busybox), 404);

    assert.equal(await pullStatus(ofOther, other), 200);
    const [left] = await listed([other.reference], ofAdmin);
    assert.match(left?.user ?? '', / 1$/);
    assert.deepEqual(await run(['end', left?.id ?? ''], ofAda()), { ended: 1 });
    assert.equal(await pullStatus(ofOther, other), 404);
    const { entries } = (await (
      await sluice.fetch('/platform/audit', { headers: admin })
    ).json()) as { entries: readonly { action: string; target: string }[] };
    const ends = entries.filter(({ action }) => action === 'request.end');
    assert.equal(ends.length, 3);
    assert.ok(ends.some(({ target }) => target.endsWith(` of ${busybox.reference}`)));
  });

  test('nobody ends the names of others, nor all names by mistake', async () => {
    const name = await ask(busybox);
    const [{ id } = { id: '' }] = await listed([busybox.reference], ofAdmin);
    const path = `${sluice.url}/v1alpha1/containers`;
    const end = (at: string, headers = {}) => call(path + at, { method: 'DELETE', headers });
    assertApiFault(await end(`/${id}`, bearer()), 404, /No served name of yours has this id/);
    assertApiFault(await end(`/${id}`), 401, /requires a login/);
    assertApiFault(await end('?image=', admin), 400, /'image' is empty/);
    assertApiFault(await end('', admin), 400, /'image' is required/);
    assertApiFault(await end('?image=UPPER', admin), 400, /'image': Invalid image name/);
    assertApiFault(await call(`${path}?last=x`, { headers: admin }), 400, /'last'.* is not the/);
    assert.equal(await pullStatus(name, busybox), 200);
  });

  test('the page shows and ends them', async () => {
    const name = await ask(busybox, token);
    const page = async (path: string, headers: Record<string, string>, body?: string) => {
      const response = await sluice.fetch(path, {
        headers: {
          accept: 'text/html',
          ...headers,
          ...(body && { 'content-type': 'application/x-www-form-urlencoded' }),
        },
        redirect: 'manual',
        ...(body ? { method: 'POST', body } : {}),
      });
      return { location: response.headers.get('location') ?? '', text: await response.text() };
    };
    const path = `/view/containers?image=${encodeURIComponent(busybox.digest)}`;
    assert.match((await page(path, {})).text, /Log in to see/);
    const { text } = await page(path, bearer());
    const ids = [...text.matchAll(/name="id" value="([0-9a-f]{64})" checked/g)].map(
      ([, id]) => id ?? '',
    );
    assert.equal(ids.length, 1, text);
    const { location } = await page(path, bearer(), `id=${ids[0]}`);
    assert.match((await page(location, bearer())).text, /Ended 1 name\./);
    assert.equal(await pullStatus(name, busybox), 404);
  });
});
