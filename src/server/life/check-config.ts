import { createLogger } from '../../foundation/telemetry/index.ts';
import { createEndpoints } from '../../platform/endpoint.ts';
import { openAccounts } from '../assembly/watched-accounts.ts';
import {
  type Config,
  ConfigError,
  type ConfigFault,
  type ConfigFile,
  configSchema,
  faultsIn,
  readConfigFile,
  replicaSettings,
} from '../config/index.ts';
import {
  configuredBuilderTls,
  configuredChannels,
  configuredCredentials,
  configuredIndexes,
  configuredRegistries,
  configuredScanner,
  configuredSifSigner,
  publicUrlOf,
  readReplicaSettings,
  tlsSettings,
} from '../config/read/index.ts';
import { readCertificates } from './tls-server.ts';

/**
 * Returns all faults of a configuration file, by line: of its syntax, of its settings, and of the files that it names.
 * The environment is ignored.
 */
export function checkConfigFile(path: string): readonly ConfigFault[] {
  let file: ConfigFile;
  try {
    file = readConfigFile(path);
  } catch (error) {
    return [faultOf(error, undefined)];
  }
  const result = configSchema.safeParse(file.values);
  const faults = result.success ? [] : faultsIn(result.error, { environment: {}, file });
  const config = result.success ? result.data : validPart(file.values);
  for (const [setting, check] of checksOf(config)) {
    try {
      check();
    } catch (error) {
      faults.push(faultOf(error, file.lineOf(setting)));
    }
  }
  return faults.sort((one, other) => (one.line ?? 0) - (other.line ?? 0));
}

function faultOf(error: unknown, line: number | undefined): ConfigFault {
  if (error instanceof Error) return { setting: undefined, line, message: error.message };
  throw error;
}

interface Schema {
  safeParse(value: unknown): { readonly success: boolean };
}

/** Returns the valid settings, so that they can be checked although others are wrong. */
function validPart(values: Readonly<Record<string, unknown>>): Config {
  const shape: Readonly<Record<string, Schema>> = configSchema.shape;
  const valid = Object.entries(values).flatMap(([name, value]) => {
    const schema = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (!schema) return [];
    if (schema.safeParse(value).success) return [[name, value]];
    const members = Object.entries(value ?? {}).filter(
      ([key, member]) => schema.safeParse({ [key]: member }).success,
    );
    return members.length > 0 ? [[name, Object.fromEntries(members)]] : [];
  });
  return configSchema.parse(Object.fromEntries(valid));
}

type Check = readonly [setting: readonly (string | number)[], check: () => unknown];

/**
 * Returns the checks that the schema cannot make: settings that require each other, and files. Each entry of a list
 * has its own check.
 */
function checksOf(config: Config): Check[] {
  const publicUrl = publicUrlOf(config);
  const registries = Object.entries(config.registries).map(
    ([host, settings]): Check => [
      ['registries', host],
      () => configuredRegistries({ ...config, registries: { [host]: settings } }, publicUrl),
    ],
  );
  const channels = Object.entries(config.channels).map(
    ([name, settings]): Check => [
      ['channels', name],
      () => configuredChannels({ channels: { [name]: settings } }),
    ],
  );
  const indexes = Object.entries(config.pypi).map(
    ([url, settings]): Check => [
      ['pypi', url],
      () => configuredIndexes({ pypi: { [url]: settings } }),
    ],
  );
  const builders = Object.entries(config.buildkitTls).map(
    ([address, files]): Check => [
      ['buildkitTls', address],
      () => configuredBuilderTls({ ...config, buildkitTls: { [address]: files } }),
    ],
  );
  const silent = createLogger('silent');
  const accountFiles = config.accountFiles.map(
    (entry, at): Check => [
      ['accountFiles', at],
      () => openAccounts({ ...config, accountFiles: [entry] }, silent, () => {}),
    ],
  );
  return [
    ...registries,
    ...channels,
    ...indexes,
    ...builders,
    ...accountFiles,
    [['tls'], () => checkTls(config)],
    [['replica'], () => replicaSettings(config)],
    [['readReplica'], () => readReplicaSettings(config)],
    [['dockerConfig'], () => configuredCredentials(new Map(), config, undefined)],
    [['sif', 'signingKey'], () => configuredSifSigner(config.sif.signingKey)],
    [['scans'], () => configuredScanner(config)],
    [['platform'], () => checkPlatform(config, publicUrl)],
  ];
}

function checkTls(config: Config): void {
  const settings = tlsSettings(config);
  if (!settings) return;
  try {
    readCertificates(settings);
  } catch (error) {
    throw new ConfigError(`Cannot use the TLS files: ${(error as Error).message}`);
  }
}

function checkPlatform({ platform: { url, allow, aliases } }: Config, publicUrl: URL): void {
  const own = new URL('/platform', publicUrl).href;
  createEndpoints({ own, byDefault: url, allow, aliases });
}
