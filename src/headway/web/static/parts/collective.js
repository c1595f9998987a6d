export class Collective { constructor() {} close() {} }
