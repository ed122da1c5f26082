import type { Credentials } from '../../upstream/auth/index.ts';
import type { CredentialKeys } from '../workflow-platform.ts';
import { ecrRegistry } from './ecr-registry.ts';
import { isAzureRegistry, isGoogleRegistry } from './registry-match.ts';

/** An AWS account, or a role in one, for which ECR issues a password. */
export interface AwsKeys {
  readonly accessKey: string | undefined;
  readonly secretKey: string | undefined;
  readonly assumeRoleArn: string | undefined;
  readonly externalId: string | undefined;
}

/** How to log in to a registry with some keys: directly, or through AWS. */
export type Login = Credentials | { readonly kind: 'aws'; readonly keys: AwsKeys };

interface Usage {
  readonly isHost: (host: string) => boolean;
  /** The user name for a token that came without one. */
  readonly tokenUser: string;
}

// A token without a user name uses these names. Sources: the registries' own pages on `docker login`.
const usages: readonly Usage[] = [
  { isHost: isGoogleRegistry, tokenUser: 'oauth2accesstoken' },
  { isHost: isAzureRegistry, tokenUser: '00000000-0000-0000-0000-000000000000' },
  { isHost: isOneOf('ghcr.io', 'docker.pkg.github.com'), tokenUser: 'token' },
  { isHost: isOneOf('registry.gitlab.com'), tokenUser: 'oauth2' },
  { isHost: isOneOf('quay.io'), tokenUser: '$oauthtoken' },
];

const roleArn = /^arn:aws(?:-[a-z]+)*:iam::\d{12}:role\//;

/** Returns how to log in to the registry; undefined when these keys do not work for it. */
export function loginFor(host: string, keys: CredentialKeys): Login | undefined {
  const isAws = ecrRegistry(host) !== undefined;
  switch (keys.kind) {
    case 'aws':
      return isAws && (keys.accessKey || keys.assumeRoleArn) ? { kind: 'aws', keys } : undefined;
    case 'google':
      return isGoogleRegistry(host) ? passwordLogin(host, '', keys.data) : undefined;
    case 'azure':
      return isAzureRegistry(host)
        ? passwordLogin(host, keys.clientId, keys.clientSecret)
        : undefined;
    case 'other':
      return undefined;
    default:
      return isAws && keys.username !== 'AWS'
        ? { kind: 'aws', keys: awsKeys(keys.username, keys.password) }
        : passwordLogin(host, keys.username, keys.password);
  }
}

function passwordLogin(host: string, username: string, password: string): Credentials | undefined {
  if (password === '') return undefined;
  if (username === '<token>') return { kind: 'identity-token', token: password };
  const user = keyFileUser(host, password) ?? (username || tokenUser(host));
  return user === undefined ? undefined : { kind: 'password', username: user, password };
}

function tokenUser(host: string): string | undefined {
  return usages.find(({ isHost }) => isHost(host))?.tokenUser;
}

/**
 * Returns the user name for a key file of a Google service account, which serves as a password as it is or in base64.
 */
function keyFileUser(host: string, password: string): string | undefined {
  if (!isGoogleRegistry(host)) return undefined;
  if (isKeyFile(password)) return '_json_key';
  return isKeyFile(Buffer.from(password, 'base64').toString('utf8'))
    ? '_json_key_base64'
    : undefined;
}

function isKeyFile(text: string): boolean {
  return text.trimStart().startsWith('{') && text.includes('"private_key"');
}

/** For ECR, user name and password are a role and its external id, or the two parts of an access key. */
function awsKeys(username: string, password: string): AwsKeys {
  return roleArn.test(username)
    ? {
        accessKey: undefined,
        secretKey: undefined,
        assumeRoleArn: username,
        externalId: password || undefined,
      }
    : {
        accessKey: username,
        secretKey: password,
        assumeRoleArn: undefined,
        externalId: undefined,
      };
}

function isOneOf(...hosts: readonly string[]): (host: string) => boolean {
  return host => hosts.includes(host);
}
