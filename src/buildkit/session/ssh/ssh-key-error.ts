/** The content of a file is not a private key that an agent can use. The message follows the name of the file. */
export class SshKeyError extends Error {
  static encrypted(): SshKeyError {
    return new SshKeyError(
      'is encrypted: specify a key without a passphrase, such as a deploy key that can only read. To remove the passphrase from a copy, run ssh-keygen -p -f COPY',
    );
  }

  static otherType(type: string): SshKeyError {
    return new SshKeyError(`has the type ${type}: expected Ed25519, ECDSA or RSA`);
  }
}
