/** A builder that requires mutual TLS: its configuration, and the messages to callers. */
import assert from 'node:assert/strict';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { TlsFiles } from '../../src/buildkit/index.ts';
import { createBuilderTls } from '../../src/builds/builder/builder-connections.ts';
import { createBuilders } from '../../src/builds/builder/builders.ts';
import { domainOfCaller } from '../../src/builds/domain.ts';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import {
  type Certificates,
  makeCertificates,
  makeClientCertificate,
} from '../world/certificates.ts';
import { eventually } from '../world/eventually.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { assertSuccess } from './served.ts';

const log = createLogger('silent');
const never = new AbortController().signal;
const user = domainOfCaller({ owner: 'one', isTrusted: true });

suite('a builder behind TLS', () => {
  let directory: TempDir;
  let own: Certificates;
  let others: Certificates;
  let client: { certificate: string; key: string };
  let strange: { certificate: string; key: string };
  let buildkitd: Buildkitd;

  before(async () => {
    directory = await makeTempDir('tls');
    own = await makeCertificates(directory.join('own'), ['127.0.0.1', 'builder.test']);
    others = await makeCertificates(directory.join('others'));
    client = await makeClientCertificate(own);
    strange = await makeClientCertificate(others);
    buildkitd = await startBuildkitd({ tls: own });
  });
  after(async () => {
    await buildkitd?.stop();
    await directory?.remove();
  });

  /** Returns the error message of a build on that builder. */
  const failure = async (address: string, files: TlsFiles | undefined): Promise<string> => {
    const find = async () => [{ address, isOpen: true }];
    const source = {
      ...{ find, canStart: async () => false, untilInstalled: async () => {} },
      ...{ isComing: () => false, isClosedTo: () => false, troubles: () => [] },
    };
    const tlsOf = createBuilderTls(new Map(files ? [[address, files]] : []), log);
    const builders = createBuilders({ source, log, tlsOf });
    try {
      await builders.use({ domain: user, platforms: [] }, never, async () => {});
      return 'none';
    } catch (error) {
      return (error as Error).message;
    } finally {
      await builders.close();
    }
  };

  test('TLS failures are reported without an address or a path', async () => {
    const expired = await makeClientCertificate(own, -1);
    const ca = own.authority;
    const cases: readonly [TlsFiles | undefined, RegExp | string][] = [
      [{ ca, ...client }, 'none'],
      [{ ca, ...client, serverName: 'builder.test' }, 'none'],
      [
        { ca: others.authority, ...client },
        /certificate was not issued by the configured authority/,
      ],
      [{ ca }, /the builder requires a client certificate/],
      [{ ca, ...strange }, /the builder does not accept the client certificate/],
      [{ ca, ...expired }, /the client certificate has expired/],
      [{ ca, ...client, serverName: 'other.test' }, /certificate is for another name/],
      [undefined, /if it requires TLS, .* 'buildkitTls'/],
    ];
    for (const [files, expected] of cases) {
      const message = await failure(buildkitd.tcpAddress, files);
      if (typeof expected === 'string') assert.equal(message, expected);
      else assert.match(message, expected);
      assert.doesNotMatch(message, /127\.0\.0\.1|\/tmp|PRIVATE|OpenSSL|rec_layer/);
    }
  });

  test('an expired certificate of the builder is reported', async () => {
    const old = await makeCertificates(directory.join('old'), ['127.0.0.1'], -1);
    await using expired = await startBuildkitd({ tls: old });
    const message = await failure(expired.tcpAddress, { ca: old.authority });
    assert.match(message, /the builder's certificate has expired/);
  });

  test('a server builds with it, and uses new certificates without a restart', async () => {
    const [certificate, key] = [directory.join('client.pem'), directory.join('client.key')];
    const put = async (files: { certificate: string; key: string }) => {
      await copyFile(files.certificate, certificate);
      await copyFile(files.key, key);
    };
    await put(strange);
    const { tcpAddress } = buildkitd;
    await using sluice = await startSluice({
      config: {
        buildkit: [tcpAddress],
        buildkitTls: { [tcpAddress]: { ca: own.authority, certificate, key } },
      },
    });
    const build = async (label: string) => {
      const file = directory.join(label);
      await writeFile(file, `FROM scratch\nLABEL made=${label}\n`);
      return sluiceCommand(['build', '-f', file, '--await'], { SLUICE_SERVER: sluice.url });
    };
    const refused = await build('refused');
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /the builder does not accept the client certificate/);
    // Incomplete: the certificate is replaced, its key is not.
    await copyFile(client.certificate, certificate);
    assert.notEqual((await build('halfway')).code, 0);
    await eventually('the log reports it', () =>
      sluice.output().includes('cannot use the changed certificate files of a builder'),
    );
    await put(client);
    const image = assertSuccess(await build('accepted'));
    assert.ok(image.startsWith(`${sluice.host}/`), image);
    assert.doesNotMatch(sluice.output(), /PRIVATE KEY/);
  });

  test('unusable files prevent the start, with a sentence', async () => {
    const address = 'tcp://127.0.0.1:9';
    const ca = own.authority;
    const wrong = directory.join('wrong.pem');
    await writeFile(wrong, 'secret');
    const cases: readonly [object, RegExp][] = [
      [
        { ca: join(directory.path, 'absent.pem') },
        /'ca': the file .*absent\.pem cannot be read: it does not exist/,
      ],
      [{ ca: wrong }, /'ca': the file .*wrong\.pem is not a certificate/],
      [{ ca, certificate: client.certificate }, /'certificate' and 'key' go together/],
      [{ ca, ...client, key: wrong }, /'key': the file .*wrong\.pem is not a private key/],
      [{ ca, ...client, key: strange.key }, /does not belong to the certificate/],
    ];
    for (const [files, expected] of cases) {
      const config = { buildkit: [address], buildkitTls: { [address]: files } };
      await assert.rejects(startSluice({ config }), (error: Error) => {
        assert.match(error.message, expected);
        assert.match(error.message, /buildkitTls\.tcp:\/\/127\.0\.0\.1:9/);
        return true;
      });
    }
    const config = { buildkit: [address], buildkitTls: { 'tcp://127.0.0.1:10': { ca } } };
    await assert.rejects(
      startSluice({ config }),
      /buildkitTls\.tcp:\/\/127\.0\.0\.1:10: no such builder/,
    );
  });
});
