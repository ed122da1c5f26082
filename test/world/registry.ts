import { writeFile } from 'node:fs/promises';
import { type Certificates, makeCertificates, makeKeyPair } from './certificates.ts';
import { type Daemon, startDaemon, waitForLine } from './daemon.ts';
import { makeTempDir, type TempDir } from './temp-dir.ts';
import { startTokenService, type TokenOptions, type TokenService } from './token-service.ts';

export interface RegistryOptions {
  readonly auth?: 'none' | 'basic' | 'bearer';
  /** How the token service of `bearer` behaves. */
  readonly token?: TokenOptions;
  /** Manifests and blobs may be deleted. Default: true. */
  readonly delete?: boolean;
  /** Docker schema 1 manifests may be pushed and pulled. */
  readonly schema1?: boolean;
  /** True makes an authority and a certificate for 127.0.0.1 and localhost. */
  readonly tls?: boolean | Certificates;
  /** Makes it a pull-through cache of the registry at this URL. */
  readonly mirrorOf?: string;
}

/** A request as the registry wrote it into its access log, a moment after it was answered. */
export interface LoggedRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly userAgent: string;
}

/** A docker-registry 2.8 with its own storage. */
export interface Registry extends AsyncDisposable {
  /** `127.0.0.1:<port>`, as it stands in image names. */
  readonly host: string;
  readonly url: string;
  /** The one account; with `auth: 'none'` nobody asks for it. */
  readonly username: string;
  readonly password: string;
  readonly directory: string;
  readonly pid: number | undefined;
  readonly requests: LoggedRequest[];
  readonly tokenService: TokenService | undefined;
  readonly certificates: Certificates | undefined;
  stop(): Promise<void>;
}

const account = { username: 'tester', password: 'sesame' };
// bcrypt of that password, the only kind of hash that the registry takes.
const passwordFile = 'tester:$2y$04$abcdefghijklmnopqrstuuinwY/tkBVrn3xrxQI/TgnMHhkvl85RW\n';

/** Starts the registry on a free port of 127.0.0.1. */
export async function startRegistry(options: RegistryOptions = {}): Promise<Registry> {
  const directory = await makeTempDir('registry');
  const certificates = await chooseCertificates(directory, options.tls);
  const auth = await prepareAuth(directory, options, certificates);
  const config = {
    version: 0.1,
    log: { level: 'info' },
    storage: {
      filesystem: { rootdirectory: directory.join('data') },
      delete: { enabled: options.delete ?? true },
      maintenance: { uploadpurging: { enabled: false } },
    },
    validation: { manifests: { urls: { allow: ['^http://'] } } },
    http: {
      addr: '127.0.0.1:0',
      secret: 'only for tests',
      ...(certificates
        ? { tls: { certificate: certificates.certificate, key: certificates.key } }
        : {}),
    },
    ...(auth.config === undefined ? {} : { auth: auth.config }),
    ...(options.schema1 ? { compatibility: { schema1: { enabled: true } } } : {}),
    ...(options.mirrorOf === undefined ? {} : { proxy: { remoteurl: options.mirrorOf } }),
  };
  await writeFile(directory.join('config.yml'), JSON.stringify(config));
  const daemon = startDaemon('docker-registry', ['serve', directory.join('config.yml')]);
  const requests = readAccessLog(daemon);
  const stop = async () => {
    await daemon.stop();
    await auth.tokenService?.stop();
    await directory.remove();
  };
  try {
    const [, host = ''] = await waitForLine(daemon, /listening on ([\d.]+:\d+)/);
    return {
      ...{ host, url: `${certificates ? 'https' : 'http'}://${host}`, ...account },
      ...{ directory: directory.path, requests, tokenService: auth.tokenService, certificates },
      ...{ pid: daemon.process.pid, stop, [Symbol.asyncDispose]: stop },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function chooseCertificates(
  directory: TempDir,
  tls: boolean | Certificates | undefined,
): Promise<Certificates | undefined> {
  if (tls === true) return makeCertificates(directory.join('tls'));
  return tls || undefined;
}

async function prepareAuth(
  directory: TempDir,
  options: RegistryOptions,
  certificates: Certificates | undefined,
): Promise<{ config?: object; tokenService?: TokenService }> {
  if (options.auth === 'basic') {
    await writeFile(directory.join('htpasswd'), passwordFile);
    return { config: { htpasswd: { realm: 'tests', path: directory.join('htpasswd') } } };
  }
  if (options.auth === 'bearer') {
    const keyPair = await makeKeyPair(directory.path, 'token');
    const tokenService = await startTokenService(account, keyPair, options.token, certificates);
    const { realm, service, issuer } = tokenService;
    const rootcertbundle = directory.join('token.crt');
    return { config: { token: { realm, service, issuer, rootcertbundle } }, tokenService };
  }
  return {};
}

// 127.0.0.1 - - [date] "GET /v2/ HTTP/1.1" 200 2 "" "user agent"
const logLine = /"([A-Z]+) (\S+) HTTP\/[\d.]+" (\d{3}) \d+ "[^"]*" "([^"]*)"/;

function readAccessLog(daemon: Daemon): LoggedRequest[] {
  const requests: LoggedRequest[] = [];
  daemon.onLine(line => {
    const [whole, method = '', path = '', status, userAgent = ''] = logLine.exec(line) ?? [];
    if (whole !== undefined) requests.push({ method, path, status: Number(status), userAgent });
  });
  return requests;
}
