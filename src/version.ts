import { version } from '../package.json';

/** This build's version, the same as that of the Python package. */
export const VERSION: string = version;
