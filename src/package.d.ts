declare module '*/package.json' {
  export const version: string;
}
