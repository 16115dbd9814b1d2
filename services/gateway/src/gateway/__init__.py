"""The gateway: what people, tools and foreign languages speak to. Stateless: any number, any may die."""
