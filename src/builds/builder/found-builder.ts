import type { TrustDomain } from '../domain.ts';

/** Returns true while builds run on the builder with this address. */
export type IsBusy = (address: string) => boolean;

/** How much work a builder gets. */
export interface BuilderShare {
  /** Builds that it gets for each one that a builder of weight 1 gets. Default: 1. */
  readonly weight?: number | undefined;
  /** Maximum number of simultaneous builds. Default: no limit. */
  readonly builds?: number | undefined;
}

/** A builder that was found. */
export interface FoundBuilder {
  readonly address: string;
  /** The configured address that it was found by, with the name of several builders. Default: its address. */
  readonly configured?: string;
  readonly share?: BuilderShare | undefined;
  /** True if anonymous callers may build there. */
  readonly isOpen: boolean;
  /** Present for a builder that this server has started for the domain alone. */
  readonly own?: OwnHandle;
}

export interface OwnHandle {
  hasEnded(): boolean;
  /** Ends it, and removes its state. */
  end(): Promise<void>;
}

/** Finds builders for a domain. Resolves only after a running installation has ended. */
export type FindBuilders = (
  domain: TrustDomain,
  isBusy?: IsBusy,
) => Promise<readonly FoundBuilder[]>;

/** Finds builders and supplies the certificates for their connections. */
export interface BuilderSource {
  readonly find: FindBuilders;
  /**
   * Returns true if this server would start a builder for the domain, and the last start of one succeeded; before the
   * first start, if the programs are installed. The call starts nothing.
   */
  canStart(domain: TrustDomain): Promise<boolean>;
  /** Resolves when no builder that the domain needs is being installed. Starts nothing. */
  untilInstalled(domain: TrustDomain): Promise<void>;
  /** True while a builder is being installed. */
  isComing(): boolean;
  /** Returns true if a builder of this server is never open to the domain, whatever is installed. */
  isClosedTo(domain: TrustDomain): boolean;
  /** Returns why the builders that were found cannot be used; empty if none was found. */
  troubles(): readonly string[];
}
