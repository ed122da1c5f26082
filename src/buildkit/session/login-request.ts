import { Auth } from '../gen/moby/filesync/v1/auth_pb.js';
import { type Handler, unaryHandler } from '../grpc/grpc-server.ts';

/** How to log in to a registry. */
export type Credentials =
  | { readonly username: string; readonly password: string }
  | { readonly identityToken: string };

/**
 * Returns the credentials for a registry, or undefined for none. `host` has the form of image names: with the port if
 * there is one, and `docker.io` for Docker Hub.
 */
export type CredentialsOf = (host: string) => Promise<Credentials | undefined>;

const dockerHubNames = [
  'docker.io',
  'index.docker.io',
  'registry-1.docker.io',
  'https://index.docker.io/v1/',
];

/** Answers the builder's requests for credentials. Also passes them to `onSecret`. */
export function credentialsHandler(
  credentialsOf: CredentialsOf,
  onSecret: (secret: string) => void,
  onFailure: (error: unknown) => void,
): Handler {
  return unaryHandler(Auth.method.credentials, async ({ Host }) => {
    try {
      const found = await credentialsOf(hostOf(Host));
      if (!found) return {};
      const isToken = 'identityToken' in found;
      const Secret = isToken ? found.identityToken : found.password;
      onSecret(Secret);
      return { Username: isToken ? '' : found.username, Secret };
    } catch (error) {
      onFailure(error);
      // The callback's message may be private. Only the caller of build() receives it.
      throw new Error(`The credentials for ${Host} could not be looked up`);
    }
  });
}

/** Returns the registry's host as image names have it, for any host that a builder requests. */
export function hostOf(asked: string): string {
  return dockerHubNames.includes(asked) ? 'docker.io' : asked;
}
