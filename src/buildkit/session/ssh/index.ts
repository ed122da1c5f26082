/** /**
 * Private keys for SSH agents. A public interface without the client: the command line checks keys before it sends them,
 * and is installed without gRPC.
 */

export { readSshKey, type SshKey } from './ssh-key.ts';
export { SshKeyError } from './ssh-key-error.ts';
