/** Messages of a running server: a real receiver of webhooks, and a real SMTP server. */
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { type Receiver, startReceiver } from '../messages/receiver.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

const account = { name: 'admin', password: 'secret' };
const secret = 'a secret of webhooks';
const mailPassword = 'the password of mails';
const headers = basic(account.name, account.password);

interface Mail {
  readonly to: readonly string[];
  readonly text: string;
}

suite('messages', () => {
  let receiver: Receiver;
  let registry: Registry;
  let smtp: SMTPServer;
  let sluice: Sluice;
  let directory: TempDir;
  let image: string;
  let start: () => Promise<Sluice>;
  const mails: Mail[] = [];

  before(async () => {
    directory = await makeTempDir('messages');
    receiver = await startReceiver();
    registry = await startRegistry();
    image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    smtp = new SMTPServer({
      onAuth: ({ username, password }, _, callback) =>
        username === 'sluice' && password === mailPassword
          ? callback(null, { user: username })
          : callback(new Error('wrong password')),
      onData(stream, { envelope }, callback) {
        const chunks: Buffer[] = [];
        stream.on('data', chunk => chunks.push(chunk));
        stream.on('end', () => {
          const to = envelope.rcptTo.map(({ address }) => address);
          mails.push({ to, text: Buffer.concat(chunks).toString() });
          callback();
        });
      },
      allowInsecureAuth: true,
      disabledCommands: ['STARTTLS'],
    });
    await new Promise<void>(resolve => smtp.listen(0, '127.0.0.1', resolve));
    const { port: smtpPort } = smtp.server.address() as AddressInfo;
    const port = await freePort();
    start = () =>
      startSluice({
        port,
        data: directory.join('data'),
        config: {
          accounts: { [account.name]: account.password },
          buildkit: ['off'],
          freezeRepository: `127.0.0.1:${port}/public/frozen`,
          registries: { [registry.host]: { plainHttp: true, anonymous: true } },
          messages: {
            webhooks: {
              all: { address: receiver.url, secret, allowPrivateAddress: true },
              images: {
                ...{ address: receiver.url, form: 'distribution', events: ['image.pushed'] },
                allowPrivateAddress: true,
              },
            },
            mail: {
              ...{ server: `smtp://127.0.0.1:${smtpPort}`, from: 'sluice@example.org' },
              ...{ username: 'sluice', requireTls: false, allowPrivateAddress: true },
              ...{ builds: 'always', after: '0s' },
            },
            attempts: 1,
          },
        },
        env: { SLUICE_MESSAGES_MAIL_PASSWORD: mailPassword },
      });
    sluice = await start();
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await new Promise<void>(resolve => (smtp ? smtp.close(() => resolve()) : resolve()));
    await receiver?.[Symbol.asyncDispose]();
    await directory?.remove();
  });

  const pushManifest = async (tag: string) => {
    const response = await sluice.fetch(`/v2/team/app/manifests/${tag}`, {
      method: 'PUT',
      headers: { ...headers, 'content-type': 'application/vnd.oci.image.index.v1+json' },
      body: JSON.stringify({ schemaVersion: 2, manifests: [] }),
    });
    assert.equal(response.status, 201, await response.text());
    return response.headers.get('docker-content-digest') ?? '';
  };
  const eventsOf = (type: string) =>
    receiver.received.filter(({ body }) => body.type === `sluice.${type}`);
  const list = async (...options: string[]) => {
    const { stdout } = await sluiceCommand(['messages', 'list', '--json', ...options], {
      SLUICE_SERVER: sluice.url,
      SLUICE_ACCOUNT: `${account.name}:${account.password}`,
    });
    return (JSON.parse(stdout) as { messages: { id: number; target: string; error?: string }[] })
      .messages;
  };

  test('a push and a deletion reach their receivers', async () => {
    const digest = await pushManifest('v1');
    await eventually('both forms arrive', () => receiver.received.length === 2);
    const [pushed] = eventsOf('image.pushed');
    assert.deepEqual(pushed?.body.data, {
      ...{ host: sluice.host, repository: 'team/app', digest, tags: ['v1'], size: 34 },
      mediaType: 'application/vnd.oci.image.index.v1+json',
    });
    assert.ok(pushed?.headers['webhook-signature']);
    assert.ok(receiver.received.some(({ body }) => 'events' in body));
    const response = await sluice.fetch('/v2/team/app/manifests/v1', { method: 'DELETE', headers });
    assert.equal(response.status, 202);
    await eventually('the deletion arrives', () => eventsOf('image.deleted').length === 1);
    const [deleted] = eventsOf('image.deleted');
    assert.equal(deleted?.body.subject, 'team/app:v1');
    // A refused push, and a deletion of nothing, are no events.
    const missing = await sluice.fetch('/v2/team/app/manifests/v9', { method: 'DELETE', headers });
    assert.equal(missing.status, 404);
  });

  test('the end of a build reaches its caller by e-mail, and the webhook', async () => {
    const towerAccessToken = await newAccessToken(sluice, account, 'ada@example.org');
    const { targetImage } = await sluice.request({
      ...{ containerImage: image, freeze: true, towerAccessToken },
      containerConfig: { env: ['A=1'] },
    });
    await eventually('the webhook has it', () => eventsOf('build.ended').length === 1);
    const [ended = assert.fail()] = eventsOf('build.ended');
    const { data } = ended.body as {
      data: { id: string; image: string; succeeded: boolean; reason?: string; page: string };
    };
    assert.equal(data.succeeded, true, data.reason);
    assert.equal(data.image, targetImage);
    await eventually('the e-mail arrives', () => mails.length === 1);
    const [mail] = mails;
    assert.deepEqual(mail?.to, ['ada@example.org']);
    assert.match(
      mail?.text ?? '',
      new RegExp(`^Subject: Container build ${data.id}\\s+succeeded`, 'm'),
    );
    assert.match(mail?.text ?? '', /^From: sluice@example.org\r$/m);
    const plain = (mail?.text ?? '').replaceAll('=\r\n', '');
    assert.ok(plain.includes(data.page), plain);
    assert.equal((await fetch(data.page)).status, 200);
    for (const text of [plain, sluice.output(), ...receiver.received.map(one => one.text)]) {
      assert.ok(![towerAccessToken, secret, mailPassword].some(word => text.includes(word)));
    }
  });

  test('an administrator sees messages without attempts and sends them again', async () => {
    receiver.answer = response => response.writeHead(500).end();
    await pushManifest('v2');
    await eventually('none has attempts', async () => (await list('--dead')).length === 2);
    const [message] = await list('--dead');
    assert.equal(message?.error, 'The receiver answered 500');
    const before = receiver.received.length;
    receiver.answer = response => response.writeHead(204).end();
    const resend = (...args: string[]) =>
      sluiceCommand(['messages', 'resend', ...args], {
        ...{ SLUICE_SERVER: sluice.url, SLUICE_ACCOUNT: `${account.name}:${account.password}` },
      });
    assert.equal((await resend(String(message?.id))).code, 0);
    await eventually('it is sent', async () => (await list()).length === 1);
    assert.equal((await resend('--all')).code, 0);
    await eventually('the other one, too', async () => (await list()).length === 0);
    assert.equal(receiver.received.length, before + 2);
    assert.match((await resend('999999')).stderr, /no message 999999 without attempts/);
    const anybody = await sluice.fetch('/platform/messages');
    assert.equal(anybody.status, 401);
    const metrics = await (await sluice.fetch('/metrics', { headers })).text();
    assert.match(metrics, /^sluice_messages_total\{target="all",result="dead"\} 1$/m);
    assert.match(metrics, /^sluice_messages_oldest_seconds\{target="all"\} 0$/m);
  });

  test('kill -9 after a push, and in the middle of a message, loses none', async () => {
    let held: unknown;
    receiver.answer = (_, { text }) => {
      held ??= (JSON.parse(text) as { id: unknown }).id;
    };
    const tags = Array.from({ length: 5 }, (_, at) => `killed-${at}`);
    for (const tag of tags) await pushManifest(tag);
    await eventually('one is on its way', () => held !== undefined);
    await sluice.kill();
    receiver.answer = response => response.writeHead(204).end();
    sluice = await start();
    const arrived = () => {
      const found = eventsOf('image.pushed').map(
        ({ body }) => (body.data as { tags: string[] }).tags[0],
      );
      return tags.every(tag => found.includes(tag));
    };
    await eventually('all arrive', arrived);
    await eventually('none is left', async () => (await list()).length === 0);
    const attempts = receiver.received.filter(({ text }) => JSON.parse(text).id === held);
    assert.ok(attempts.length >= 2, 'the held message is sent again');
  });
});
