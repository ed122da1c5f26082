/** How much of something that all builds share, such as the places in their queue, some callers may use. */
export interface Shares {
  readonly inAll: number;
  /** Of one user, or of one network without a login. */
  readonly ofOne: number;
  /** Of all callers without a login together. The rest is kept for users. */
  readonly ofAnonymous: number;
}

/** The caller that uses a share. */
export interface Sharer {
  /** The user, or the network of a caller without a login. */
  readonly owner: string;
  /** True for a user: a caller with a login. */
  readonly isTrusted: boolean;
}
